//go:build race

package content

const raced = true
