// Package calendar answers: may a cluster be started now, and if not, when?
//
// [Rules] are maintenance windows, in which clusters may be started, and
// freezes, in which they may not. They are given for a whole run, for stages,
// for groups and for single clusters. [Rules.For] resolves them against a plan
// into a [stages.Calendar].
//
// # Precedence
//
//   - The windows of one level are alternatives: one of them is enough.
//   - The levels that concern a cluster must all agree: run, stage, group and
//     cluster. A level without windows does not limit.
//   - A freeze of any level wins over every window.
//
// # Recurrence
//
// The RRule of a window or a freeze is a recurrence rule of RFC 5545, for
// example FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=2. Each occurrence is the start of a
// time of the given Duration. Times that overlap or touch are one. The package
// refuses rules outside this subset of the RFC rather than reinterpret them:
//
//   - A rule needs no start. What it leaves open is then midnight or minute 0 or
//     second 0, and a rule that leaves open which day it means, counts, or has
//     an INTERVAL that the start decides about, is refused. With a Start what is
//     left open comes from it, but a rule that names hours or minutes and
//     nothing finer means minute 0 and second 0. A Start is an occurrence only
//     when the rule says so.
//   - FREQ goes down to MINUTELY. A rule with FREQ=DAILY or longer names at most
//     96 times of a day, all at the same second of the minute.
//   - UNTIL may be local (20260131T180000), UTC (20260131T170000Z), or a date, of
//     which all of the day counts. COUNT is at most 1000 and counts what is within
//     400 years of the start, INTERVAL is at most 10000.
//   - BYDAY is either all plain days or all numbered ones (1MO, -1SU), BYSETPOS
//     wants FREQ=DAILY or longer, and BYEASTER and negative BYWEEKNO are not
//     known.
//   - A rule that never occurs is an error. A rule is also an error if it never
//     pauses because each time lasts until the next. A time with FREQ=MINUTELY or
//     FREQ=HOURLY lasts at most a day, or the INTERVAL if that is longer.
//
// # Time zones
//
// Rules are evaluated on the wall clock of their time zone, which is a name of
// the IANA database. The system (and the environment variable ZONEINFO) provides
// the database; if it has none, the program uses its embedded copy. Without a
// name the zone is UTC.
//
// A local time is the first instant at which the zone's clocks show it or
// have passed it. So a start at 02:30 on a day on which clocks go from 02:00 to
// 03:00 is at 03:00, and on a day on which they go back from 03:00 to 02:00 it
// is the first 02:30, once: that holds for rules by the hour and the minute
// too, which have no occurrence in the hour that is repeated. A Duration is
// time that passes, not what clocks show: a window from 22:00 for 8 hours ends
// at 05:00 or 07:00 in those nights.
//
// # Looking ahead
//
// [stages.Window].Until is the next change of Open with all windows and freezes
// taken together. The search looks 10 years ahead, or 400 days if the rules of
// a cluster together have more than 100 starts a day. Until is zero if the next
// change is later. The search leaps over repetitions, so that an answer takes
// milliseconds for every rule.
//
// Neighbours: package stages asks the calendar before it starts a cluster.
package calendar
