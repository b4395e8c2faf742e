//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package kubeenv

import "os"

// tryLock never succeeds on this system, so sweep removes nothing: the directories of killed
// processes must be removed by hand.
func tryLock(*os.File) bool { return false }
