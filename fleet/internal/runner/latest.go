package runner

// latest hands the last of several values to one reader. It may be used concurrently.
type latest[T any] chan T

func newLatest[T any]() latest[T] { return make(chan T, 1) }

// put replaces a value that was not taken yet.
func (l latest[T]) put(value T) {
	for {
		select {
		case l <- value:
			return
		default:
		}
		select {
		case <-l:
		default:
		}
	}
}

// take returns the last value, and whether it is new since the last call.
func (l latest[T]) take() (value T, isNew bool) {
	select {
	case value = <-l:
		return value, true
	default:
		return value, false
	}
}
