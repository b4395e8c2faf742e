//go:build !race

package content

const raced = false
