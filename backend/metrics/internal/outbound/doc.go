// Package outbound makes requests to servers outside of the fleet for the providers of metrics: within one origin, with the
// credentials of the host, bounded in time and size, and with errors that may be shown to everybody who may see a run.
package outbound
