package yamldoc

// Marks counts what values are set apart by.
func Marks(data []byte) int { return marks(data) }
