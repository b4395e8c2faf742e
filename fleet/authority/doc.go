// Package authority combines several authorities into one, because an engine has only one:
// fleet.Config.Authority.
//
//	fleet.Config{Authority: authority.PerGroup(map[string]approval.Authority{
//		"sre":     authority.Any(pager, chat),
//		"metrics": authority.Last("metrics", authority.All(errors, latency)),
//	})}
//
// An authority returns one decision, which counts for one identity. [Any], [First], [PerGroup] and
// [Last] return the decision of a member unchanged, with its identity. Only if several members
// approve together, the combination returns a joint decision. Its identity ensures that it never
// counts for more than the decision of each member could:
//
//   - its name joins the names of the members that approved, such as "errors, latency", and counts
//     once;
//   - its groups, with [All], are the groups that every member is in, and with [PerGroup] the
//     groups that the members were asked for;
//   - its comment joins the members' comments, and it holds at a point in time only if the approval
//     of at least one member does.
//
// If approval.Evaluate would refuse a member's decision by itself, the decision does not become
// part of a joint decision. An example is a decision of the identity that started the run, if the
// policy forbids that. [Named] gives the answers of an authority another identity.
//
// # How members are asked
//
// The members of a combination are asked concurrently, in the context of the combination's call.
// Their calls are cancelled once the answer no longer depends on them. A member that fails, panics
// or does not return hides no verdict of another member. If the members reach no verdict, the error
// of the combination joins their errors, each with the name of the member. A member is asked about
// a request again only after its earlier call has returned, even if the combination did not wait
// for that call.
//
// A combination is an approval.Scheduler: it asks to be called when its first member does. If only
// some members are schedulers, it asks the other members at intervals that double from one second
// to ten seconds. If no member is a scheduler and there is no deadline, the engine chooses the
// intervals.
//
// # Approvals that hold at a point in time
//
// An authority that measures, such as an error rate, approves with approval.Decision.PointInTime:
// the approval counts only if no other approval is missing, and only for one minute. [Last] asks
// such an authority only once nothing else is missing, as fleet.NoDrift compares clusters. So no
// measurement is wasted or out of date.
//
// Such approvals of several members count together as only one decision, because an engine
// remembers one per authority. Therefore, if a policy requires two identities of one group, two
// such authorities in one combination cannot provide both. Neither can they if the policy has
// DistinctApprovers and requires an approval from each of two groups: see [PerGroup].
package authority
