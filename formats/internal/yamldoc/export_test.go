package yamldoc

// Marks counts the separators of values.
func Marks(data []byte) int { return marks(data) }
