// Package calendar decides whether a cluster may be started now, and if not, when.
//
// [Rules] are maintenance windows, when clusters may be started, and freezes, when they may not.
// They apply to a whole run, to stages, to groups or to single clusters. [Rules.For] resolves
// them against a plan into a [stages.Calendar].
//
// # Precedence
//
//   - The windows of one level are alternatives: one of them is enough.
//   - The levels that apply to a cluster must all agree: run, stage, group and cluster. A level
//     without windows does not limit.
//   - A freeze of any level wins over every window.
//
// # Recurrence
//
// The RRule of a window or a freeze is a recurrence rule of RFC 5545, for example
// FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=2. Each occurrence is the start of a period of the given
// Duration. Periods that overlap or touch are merged. The package refuses rules outside this
// subset of the RFC rather than reinterpret them:
//
//   - A rule needs no start. Missing parts are then midnight, minute 0 or second 0. A rule
//     without a start is refused if it does not determine the day, has a COUNT, or has an
//     INTERVAL whose phase depends on the start. With a Start, missing parts are taken from it.
//     But if a rule names hours or minutes and nothing finer, the finer parts are 0. The Start
//     itself is an occurrence only if the rule matches it.
//   - The finest FREQ is MINUTELY. A rule with FREQ=DAILY or longer names at most 96 times of a
//     day, all at the same second of the minute.
//   - UNTIL may be local (20260131T180000), UTC (20260131T170000Z), or a date, which includes the
//     whole day. COUNT is at most 1000 and counts occurrences within 400 years of the start,
//     INTERVAL is at most 10000.
//   - BYDAY has either only plain days or only numbered ones (1MO, -1SU), BYSETPOS requires
//     FREQ=DAILY or longer, and BYEASTER and negative BYWEEKNO are not supported.
//   - A rule that never occurs is an error. A rule is also an error if it never pauses because
//     each period lasts until the next. A period with FREQ=MINUTELY or FREQ=HOURLY lasts at most
//     a day, or the INTERVAL if that is longer.
//
// # Time zones
//
// Rules are evaluated on the wall clock of their time zone, which is a name of the IANA database.
// The system (and the environment variable ZONEINFO) provides the database; if it has none, the
// program uses its embedded copy. Without a name the zone is UTC.
//
// A local time means the first instant when the clocks of the zone show this time or a later time.
// If clocks skip from 02:00 to 03:00 on a day, a start at 02:30 is at 03:00. If they are set back
// from 03:00 to 02:00, a start at 02:30 is at the first 02:30 only. The same applies to hourly and
// minutely rules, which have no occurrence in the repeated hour. A Duration is elapsed time, not a
// difference of clock times: a window from 22:00 for 8 hours ends at 05:00 or 07:00 in those
// nights.
//
// # Looking ahead
//
// [stages.Window].Until is the time at which Open changes next, if all windows and freezes are
// considered. The search looks 10 years ahead, or 400 days if the rules of a cluster together have
// more than 100 starts a day. Until is zero if the next change is later. The search skips
// repetitions, so that an answer takes milliseconds for every rule.
//
// Neighbours: package stages asks the calendar before it starts a cluster.
package calendar
