// Package faulty breaks a backend on purpose.
//
// A [Plan] stands for one process: it counts the calls of every store and connection that is wrapped with it
// and decides their faults. A call can fail before it has an effect, fail after it (the write happened, the
// caller sees an error), fail and have its effect only later (the write was still on its way when the caller
// read), be delayed, or hang until its context ends; and the process can crash: from the nth write on every
// call fails with [ErrCrashed]. To try a crash around every write of a scenario, run it with n = 1, 2, ...
// until [Plan.Crashed] reports that it ran to its end:
//
//	for n := 1; ; n++ {
//		plan := faulty.NewPlan(faulty.CrashAfter(n))
//		scenario(plan.Store(store))            // dies at the nth write
//		scenario(store)                        // the restarted process
//		if !plan.Crashed() {
//			break
//		}
//	}
//
// Nothing is random: the same calls in the same order meet the same faults.
// Calls from several goroutines are counted in the order in which they
// arrive. What the inner backend can do beyond its interface, the wrapped one
// can do too; only that a store makes several writes at once is hidden, unless
// it is wrapped with [Plan.BatchStore].
package faulty
