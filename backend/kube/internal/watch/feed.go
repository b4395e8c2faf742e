package watch

import "time"

const (
	// feedLinger is how long a feed goes on that nobody needs: the engine often watches again at once.
	FeedLinger = 10 * time.Second
	// feedTries is how often a feed that was interrupted is begun again, without having told of
	// anything in between, before those who watch are told that they see nothing. The pause between tries begins with feedPause, and doubles.
	FeedTries = 4
	FeedPause = 250 * time.Millisecond
)
