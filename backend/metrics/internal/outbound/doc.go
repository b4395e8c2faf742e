// Package outbound sends requests of metric providers to servers outside of the fleet. A request
// stays within one origin, carries the credentials of the host, and is limited in time and size.
// Its errors may be shown to all users with access to a run.
package outbound
