package job_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/job"
	"playground/ring"
)

func TestJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "work")
		if !strings.HasPrefix(st.JobID, "job-") || len(st.JobID) != 30 || st.JobID != strings.ToLower(st.JobID) ||
			st.State != job.Running || st.Cursor != 0 {
			t.Errorf("status is %+v", st)
		}
		synctest.Wait()
		r := s.get(t, "work")
		if r.spec.Timeout != 24*time.Hour {
			t.Errorf("the job's timeout is %v", r.spec.Timeout)
		}
		if p := poll(t, m, "alice", st.JobID, 0); p.State != job.Running || p.Chunks == nil || len(p.Chunks) != 0 || p.Result != nil {
			t.Errorf("the first page is %+v", p)
		}
		r.print("one ")
		first := poll(t, m, "alice", st.JobID, 0)
		r.print("two \xe2\x82")
		if again := poll(t, m, "alice", st.JobID, 0); text(first) != "one " || text(again) != "one two " {
			t.Errorf("repeated polls give %q and %q", text(first), text(again))
		}
		second := poll(t, m, "alice", st.JobID, first.NextCursor)
		if text(second) != "two " || second.HasMore || second.Result != nil {
			t.Errorf("the second page is %+v", second)
		}
		time.Sleep(2 * time.Second)
		r.end <- exited(7)
		synctest.Wait()
		last := poll(t, m, "alice", st.JobID, second.NextCursor)
		if last.State != job.Terminal || text(last) != "\xe2\x82" || last.Result == nil || *last.Result.ExitCode != 7 ||
			last.Result.StdoutBytes != 10 || last.Result.DurationMS != 2000 {
			t.Errorf("the last page is %+v, result %+v", last, last.Result)
		}
		if diff := cmp.Diff(last, poll(t, m, "alice", st.JobID, second.NextCursor)); diff != "" {
			t.Errorf("a repeated last poll differs:\n%s", diff)
		}
		if p := poll(t, m, "alice", st.JobID, 0); text(p) != "one two \xe2\x82" || p.Result == nil {
			t.Errorf("all at once is %+v", p)
		}
	})
}

func TestPollWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "work")
		synctest.Wait()
		r := s.get(t, "work")
		waited := func(cursor int64, wait time.Duration) (job.Page, time.Duration) {
			begin := time.Now()
			p, err := m.Poll(t.Context(), "alice", st.JobID, cursor, wait)
			if err != nil {
				t.Error(err)
			}
			return p, time.Since(begin)
		}
		if p, d := waited(0, 3*time.Second); d != 3*time.Second || p.State != job.Running || p.NextCursor != 0 {
			t.Errorf("without news a poll took %v and gave %+v", d, p)
		}
		if _, d := waited(0, time.Hour); d != 25*time.Second {
			t.Errorf("a wait over the limit took %v", d)
		}
		time.AfterFunc(time.Second, func() { r.print("news") })
		if p, d := waited(0, 20*time.Second); d != time.Second || text(p) != "news" {
			t.Errorf("with news a poll took %v and gave %+v", d, p)
		}
		if p, d := waited(0, 20*time.Second); d != 0 || text(p) != "news" {
			t.Errorf("with old news a poll took %v and gave %+v", d, p)
		}
		time.AfterFunc(time.Second, func() { r.end <- exited(0) })
		if p, d := waited(4, 20*time.Second); d != time.Second || p.Result == nil || p.State != job.Terminal {
			t.Errorf("at the end a poll took %v and gave %+v", d, p)
		}
		if p, d := waited(4, 20*time.Second); d != 0 || p.Result == nil {
			t.Errorf("after the end a poll took %v and gave %+v", d, p)
		}
	})
}

func TestPollCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "work")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.Poll(ctx, "alice", st.JobID, 0, 20*time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v", err)
		}
		if p := poll(t, m, "alice", st.JobID, 0); p.State != job.Running {
			t.Errorf("the job is %v after a poller left", p.State)
		}
		shutdown(t, m)
	})
}

// shutdown ends what a test left running.
func shutdown(t *testing.T, m *job.Manager) {
	t.Helper()
	if err := m.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestPollRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "work")
		synctest.Wait()
		s.get(t, "work").print("hello")
		for _, wait := range []time.Duration{0, time.Minute} {
			_, err := m.Poll(t.Context(), "alice", st.JobID, 6, wait)
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "ends at 5") {
				t.Errorf("a future cursor gives %v", err)
			}
		}
		if _, err := m.Poll(t.Context(), "alice", st.JobID, -1, 0); !errors.Is(err, fault.Invalid) {
			t.Errorf("a negative cursor gives %v", err)
		}
		if _, err := m.Poll(t.Context(), "alice", st.JobID, 0, -1); !errors.Is(err, fault.Invalid) {
			t.Errorf("a negative wait gives %v", err)
		}
		var errs []error
		for _, who := range [][2]string{{"bob", st.JobID}, {"alice", "job-none"}, {"bob", "job-none"}, {"", ""}} {
			_, err := m.Poll(t.Context(), who[0], who[1], 0, 0)
			errs = append(errs, err)
			_, err = m.Cancel(who[0], who[1])
			errs = append(errs, err)
		}
		for _, err := range errs {
			if !errors.Is(err, fault.NotFound) || err.Error() != errs[0].Error() || fault.HintOf(err) != fault.HintOf(errs[0]) {
				t.Errorf("an unknown or foreign job gives %v", err)
			}
		}
		shutdown(t, m)
	})
}

// TestPollPages reads more than one page of an ended job: only the last one has the result.
func TestPollPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := job.DefaultLimits()
		limits.PageBytes, limits.RingBytes = 10, 25
		m := job.NewManager(runnerFunc(func(_ context.Context, _ job.Spec, out job.Output) (job.Result, error) {
			out.Write(ring.Stdout, []byte("dropped"))
			out.Write(ring.Stderr, []byte("0123456789abcdefghijklmno"))
			return exited(0), nil
		}), limits, &memory{})
		st := start(t, m, "alice", "x")
		synctest.Wait()
		var got []job.Page
		for cursor, more := int64(0), true; more; {
			p := poll(t, m, "alice", st.JobID, cursor)
			got = append(got, p)
			cursor, more = p.NextCursor, p.HasMore
		}
		for i, want := range []struct {
			text    string
			dropped int64
		}{{"0123456789", 7}, {"abcdefghij", 0}, {"klmno", 0}} {
			p := got[i]
			if text(p) != want.text || p.DroppedBytes != want.dropped || p.Gap != (want.dropped > 0) ||
				p.State != job.Terminal || (p.Result != nil) != (i == 2) {
				t.Errorf("page %d is %+v", i, p)
			}
		}
	})
}

// TestManyPolls has a thousand polls wait for one job at once.
func TestManyPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "work")
		synctest.Wait()
		r := s.get(t, "work")
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				var all string
				for cursor := int64(0); ; {
					p, err := m.Poll(t.Context(), "alice", st.JobID, cursor, 25*time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					all += text(p)
					cursor = p.NextCursor
					if p.Result != nil {
						break
					}
				}
				if all != "abcdefghij" {
					t.Errorf("a poller got %q", all)
				}
			})
		}
		for i := range 10 {
			time.Sleep(time.Second)
			r.print(string(rune('a' + i)))
		}
		synctest.Wait()
		r.end <- exited(0)
		wg.Wait()
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		m := job.NewManager(s, job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "deaf")
		synctest.Wait()
		r := s.get(t, "deaf")
		for range 2 {
			got, err := m.Cancel("alice", st.JobID)
			if err != nil || got != (job.Status{JobID: st.JobID, State: job.Cancelling}) {
				t.Errorf("Cancel gives %+v, %v", got, err)
			}
		}
		if !errors.Is(context.Cause(r.ctx), job.ErrCancelled) {
			t.Errorf("the runner's cause is %v", context.Cause(r.ctx))
		}
		r.print("still here")
		p := poll(t, m, "alice", st.JobID, 0)
		if p.State != job.Cancelling || text(p) != "still here" || p.Result != nil {
			t.Errorf("during clean-up the page is %+v", p)
		}
		if c := m.Counts("alice"); c != (job.Counts{Active: 1, Retained: 1}) {
			t.Errorf("during clean-up the tenant has %+v", c)
		}
		r.end <- ended(r.ctx)
		synctest.Wait()
		if got, err := m.Cancel("alice", st.JobID); err != nil || got.State != job.Terminal {
			t.Errorf("Cancel after the end gives %+v, %v", got, err)
		}
		p = poll(t, m, "alice", st.JobID, 10)
		if p.Result == nil || p.Result.Outcome != job.Cancelled || p.Result.Cleanup.Killed != 1 {
			t.Errorf("the last page is %+v", p)
		}
		if c := m.Counts("alice"); c != (job.Counts{Retained: 1}) {
			t.Errorf("afterwards the tenant has %+v", c)
		}
	})
}

func TestJobTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := job.NewManager(newScript(), job.DefaultLimits(), &memory{})
		st := start(t, m, "alice", "endless")
		time.Sleep(24*time.Hour - time.Second)
		if p := poll(t, m, "alice", st.JobID, 0); p.State != job.Running {
			t.Errorf("early the page is %+v", p)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if p := poll(t, m, "alice", st.JobID, 0); p.Result == nil || p.Result.Outcome != job.TimedOut {
			t.Errorf("the last page is %+v", p)
		}
	})
}

func TestPageJSON(t *testing.T) {
	p := job.Page{JobID: "job-1", State: job.Running, Chunks: []ring.Chunk{{Sequence: 1, Stream: ring.Stdout, Data: []byte{0xff}}}}
	got, err := json.Marshal(p)
	want := `{"job_id":"job-1","state":"running","chunks":[{"sequence":1,"stream":"stdout","data":"/w=="}],` +
		`"next_cursor":0,"has_more":false,"gap":false,"dropped_bytes":0}`
	if err != nil || string(got) != want {
		t.Errorf("JSON is %s, %v, want %s", got, err, want)
	}
}
