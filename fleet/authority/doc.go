// Package authority makes one authority of several, for an engine has one: fleet.Config.Authority.
//
//	fleet.Config{Authority: authority.PerGroup(map[string]approval.Authority{
//		"sre":     authority.Any(pager, chat),
//		"metrics": authority.Last("metrics", authority.All(errors, latency)),
//	})}
//
// An authority returns one decision, which counts as that of one identity. [Any], [First], [PerGroup] and [Last]
// return the decision of a member as it is, with its identity. Only where several members are to approve together
// have they one in common, so that it never counts for more than each of them could:
//
//   - its name is the names of the members that approved, "errors, latency", and so counts once;
//   - its groups, with [All], are those in which every member is, and with [PerGroup] those for which the members were asked;
//   - its comment is theirs, and it holds at a point in time only where that of one of them does.
//
// What approval.Evaluate would refuse of a member by itself does not become part of it: a decision of the identity that
// started the run, where the policy forbids that. [Named] gives the answers of an authority another identity.
//
// # How members are asked
//
// The members of a combination are asked concurrently, in the context of its own call, and their calls are cancelled once
// the others have settled the answer. One that fails, panics or does not return hides no verdict of another. Where the
// members have come to no verdict, the error of the combination joins theirs, each with the name of the member. A member
// is asked about a request again only after its call before has returned, also where the combination did not wait for it.
//
// A combination is an approval.Scheduler: it wants to be asked when the first of its members does. A member that is none,
// beside one that is, is asked at intervals that double from a second to ten. Where no member is one, and there is no
// deadline, the intervals are the engine's.
//
// # Approvals that hold at a point in time
//
// What measures, such as an error rate, approves with approval.Decision.PointInTime: the approval counts only where it is
// the last that is missing, and for a minute. [Last] asks such an authority when nothing else is missing any more, as
// fleet.NoDrift compares clusters, so that a measurement is neither made in vain nor out of date.
//
// Such approvals of several members count together only as one decision, because an engine remembers one of an authority.
// So a policy that requires two identities of one group cannot have both from authorities of that kind in one
// combination.
package authority
