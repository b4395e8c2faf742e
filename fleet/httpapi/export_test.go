package httpapi

// Routes returns the patterns of the routes in their order.
func Routes() (out []string) {
	for _, r := range routes {
		out = append(out, r.pattern)
	}
	return out
}
