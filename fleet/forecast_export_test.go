package fleet

import "time"

// UseFor sets how long the last forecast of a run is reused.
func (h RunHandle) UseFor(a Assumptions, d time.Duration) {
	r, _ := h.e.forecasts.Get(forecastKey{h.name, a})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good = time.Now().Add(d)
}
