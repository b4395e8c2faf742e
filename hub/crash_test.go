package hub_test

func isChild() bool { return false }
func beHub() int    { return 0 }
