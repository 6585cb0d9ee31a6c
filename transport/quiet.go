package transport

import (
	"sync"
	"time"
)

// A quiet bounds how many lines strangers can make the log grow by: so many in a second, and then one number for all others. The
// metrics count every one.
type quiet struct {
	mu         sync.Mutex // guards what follows
	second     int64
	said       int
	suppressed int64
}

// perSecond is how many lines of one kind a second may have.
const perSecond = 10

// ask reports whether a line may be written now, and how many were not since the last one that was.
func (q *quiet) ask(now time.Time) (suppressed int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if second := now.Unix(); second != q.second {
		q.second, q.said = second, 0
	}
	if q.said >= perSecond {
		q.suppressed++
		return 0, false
	}
	q.said++
	suppressed, q.suppressed = q.suppressed, 0
	return suppressed, true
}
