// Package peers measures rollouts on a PostgreSQL store beside a library for durable workflows on
// the same server. It has a module of its own, so that Slipway does not depend on that library.
package peers
