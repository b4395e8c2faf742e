// Package faulty breaks a backend on purpose.
//
// A [Plan] represents one process: it counts the calls of all its wrapped stores and connections
// and decides about their faults. A call can fail before it has an effect, fail after it (the
// write happened, the caller sees an error), fail and have its effect only later (the write was
// still in transit when the caller read), be delayed, or hang until its context ends; and the
// process can crash: from the nth write on every call fails with [ErrCrashed]. To try a crash
// around every write of a scenario, run it with n = 1, 2, ... until [Plan.Crashed] reports that
// it ran to its end:
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
// Nothing is random: the same calls in the same order meet the same faults. Calls from several
// goroutines count in the order of their arrival. A wrapped backend has the same optional
// interfaces as the inner one, except for the batches of a store: only [Plan.BatchStore] returns
// a [backend.Batcher].
package faulty
