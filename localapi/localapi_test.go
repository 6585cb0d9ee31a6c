package localapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
	"playground/localapi"
)

type thing struct {
	Name string `json:"name"`
	Size int    `json:"size,omitempty"`
}

func echo(w http.ResponseWriter, r *http.Request) error {
	var in thing
	if err := localapi.Decode(r, &in); err != nil {
		return err
	}
	return localapi.Reply(w, in)
}

func TestDo(t *testing.T) {
	client := serve(t, localapi.Options{}, post(echo),
		localapi.Route{Method: "DELETE", Path: "/x/{id}", Access: anybody, Handle: func(w http.ResponseWriter, r *http.Request) error {
			if got, want := r.PathValue("id"), "a/b c%"; got != want {
				return fault.New(fault.Invalid, "id %q, want %q", got, want)
			}
			return localapi.Reply(w, nil)
		}})
	in, out := thing{Name: "<a&b>\x00", Size: 3}, thing{}
	if err := client.Do(context.Background(), "POST", "/x", in, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if err := client.Do(context.Background(), "DELETE", localapi.Join("/x/%s", "a/b c%"), nil, nil); err != nil {
		t.Error(err)
	}
}

func TestUnknownRoutes(t *testing.T) {
	client := serve(t, localapi.Options{}, post(echo))
	for _, path := range []string{"/", "/y", "/x/../x", "//x", "/x/"} {
		if err := client.Do(context.Background(), "POST", path, thing{}, nil); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: error %v, want not found", path, err)
		}
	}
	if err := client.Do(context.Background(), "GET", "/x", nil, nil); !errors.Is(err, fault.NotFound) {
		t.Errorf("GET: error %v, want not found", err)
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name, body string
		want       fault.Kind
		text       string
	}{
		{"good", `{"name":"a"}` + "\n ", "", ""},
		{"empty", "", fault.Invalid, "empty"},
		{"malformed", `{"name":]`, fault.Invalid, "malformed JSON at byte 9"},
		{"cut off", `{"name":`, fault.Invalid, "cut off"},
		{"wrong type", `{"name":5}`, fault.Invalid, `field "name" cannot hold a JSON number`},
		{"out of range", `{"size":99999999999999999999}`, fault.Invalid, `field "size"`},
		{"fraction", `{"size":1.5}`, fault.Invalid, `field "size"`},
		{"unknown field", `{"nome":"a"}`, fault.Invalid, `unknown field "nome"`},
		{"trailing value", `{"name":"a"}{}`, fault.Invalid, "data after"},
		{"trailing rubbish", `{"name":"a"}x`, fault.Invalid, "data after"},
		{"oversize", `{"name":"` + strings.Repeat("a", 2000) + `"}`, fault.TooLarge, "over 1000 bytes"},
		{"oversize after the value", `{"name":"a"}` + strings.Repeat(" ", 2000), fault.TooLarge, "over 1000 bytes"},
		{"exactly at the bound", `{"name":"` + strings.Repeat("a", 1000-11) + `"}`, "", ""},
	}
	handler := localapi.Handler([]localapi.Route{post(echo)}, localapi.Options{MaxBody: 1000})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("POST", "/x", strings.NewReader(tt.body)))
			body := w.Body.String()
			if tt.want == "" {
				if w.Code != 200 {
					t.Errorf("status %d: %s", w.Code, body)
				}
				return
			}
			if w.Code < 400 || !strings.Contains(body, fmt.Sprintf(`{"error":{"kind":%q,`, tt.want)) ||
				!strings.Contains(strings.ReplaceAll(body, `\"`, `"`), tt.text) {
				t.Errorf("status %d: %s; want kind %q and text %q", w.Code, body, tt.want, tt.text)
			}
		})
	}
}

func TestOversizeOverSocket(t *testing.T) {
	client := serve(t, localapi.Options{MaxBody: 1000}, post(echo))
	big := thing{Name: strings.Repeat("a", 8<<20)}
	for range 3 { // the connection that was refused must not spoil the next call
		if err := client.Do(context.Background(), "POST", "/x", big, nil); !errors.Is(err, fault.TooLarge) {
			t.Errorf("error %v, want too large", err)
		}
		if err := client.Do(context.Background(), "POST", "/x", thing{Name: "a"}, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsSurviveTheWire(t *testing.T) {
	kinds := []fault.Kind{fault.Invalid, fault.NotFound, fault.Denied, fault.Exists, fault.Busy, fault.Limit, fault.TooLarge,
		fault.NotOpen, fault.Unavailable, fault.Unsupported, fault.ProofLost, fault.Internal, "of_the_future"}
	var next error
	var seen []error
	client := serve(t, localapi.Options{OnError: func(_ *http.Request, err error) { seen = append(seen, err) }},
		post(func(http.ResponseWriter, *http.Request) error { return next }))
	for _, kind := range kinds {
		next = fmt.Errorf("cannot do it: %w", fault.New(kind, "no <b>").WithHint("try %q", "a & b"))
		err := client.Do(context.Background(), "POST", "/x", nil, nil)
		want := &fault.Error{Kind: kind, Message: "cannot do it: no <b>", Hint: `try "a & b"`}
		var got *fault.Error
		if !errors.As(err, &got) || !errors.Is(err, kind) {
			t.Fatalf("%s: error %v", kind, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", kind, diff)
		}
	}
	next = errors.New("disk on fire")
	err := client.Do(context.Background(), "POST", "/x", nil, nil)
	if !errors.Is(err, fault.Internal) || err.Error() != "disk on fire" {
		t.Errorf("plain error became %v", err)
	}
	if len(seen) != len(kinds)+1 {
		t.Errorf("OnError saw %d errors, want %d", len(seen), len(kinds)+1)
	}
}

func TestForeignAnswer(t *testing.T) {
	client := serve(t, localapi.Options{}, post(func(w http.ResponseWriter, _ *http.Request) error {
		http.Error(w, "I am another program", http.StatusTeapot)
		return nil
	}))
	err := client.Do(context.Background(), "POST", "/x", nil, nil)
	if !errors.Is(err, fault.Internal) || !strings.Contains(err.Error(), "status 418") {
		t.Errorf("error %v", err)
	}
}

func TestReplyThatCannotBeEncoded(t *testing.T) {
	client := serve(t, localapi.Options{}, post(func(w http.ResponseWriter, _ *http.Request) error {
		return localapi.Reply(w, make(chan int))
	}))
	if err := client.Do(context.Background(), "POST", "/x", nil, nil); !errors.Is(err, fault.Internal) {
		t.Errorf("error %v, want internal", err)
	}
}

func TestAccessIsPerRequest(t *testing.T) {
	me := uint32(os.Geteuid())
	calls := 0
	route := func(path string, access localapi.Access) localapi.Route {
		return localapi.Route{Method: "GET", Path: path, Access: access, Handle: func(w http.ResponseWriter, r *http.Request) error {
			calls++
			p := localapi.PeerOf(r.Context())
			if p.Err != nil || p.UID != me || p.PID != int32(os.Getpid()) {
				return fault.New(fault.Internal, "wrong peer %+v", p)
			}
			return localapi.Reply(w, nil)
		}}
	}
	client := serve(t, localapi.Options{},
		route("/mine", localapi.Uids(me+1, me)), route("/other", localapi.Uids(me+1)), route("/nobody", localapi.Uids()), route("/nil", nil))
	for path, want := range map[string]fault.Kind{"/mine": "", "/other": fault.Denied, "/nobody": fault.Denied, "/nil": fault.Denied} {
		if err := client.Do(context.Background(), "GET", path, nil, nil); fault.KindOf(err) != want {
			t.Errorf("%s: error %v, want kind %q", path, err, want)
		}
	}
	// A refusal does not cost the connection: the same one goes on to be served.
	if err := client.Do(context.Background(), "GET", "/mine", nil, nil); err != nil {
		t.Error(err)
	}
	if calls != 2 {
		t.Errorf("%d handler calls, want 2", calls)
	}
}

func TestUnknownPeerIsDenied(t *testing.T) {
	p := localapi.PeerOf(context.Background())
	if p.Err == nil || p.UID == 0 {
		t.Errorf("peer of an empty context is %+v", p)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	p = localapi.PeerOf(localapi.ConnContext(context.Background(), a))
	if p.Err == nil || p.UID == 0 {
		t.Errorf("peer of a pipe is %+v", p)
	}
	if err := localapi.Uids(0, p.UID)(p); !errors.Is(err, fault.Denied) {
		t.Errorf("error %v, want denied", err)
	}
}

// TestVanishedClient holds the promise that a handler waiting for news stops when nobody waits for its answer.
func TestVanishedClient(t *testing.T) {
	entered, left := make(chan struct{}), make(chan struct{})
	wait := func(_ http.ResponseWriter, r *http.Request) error {
		var in thing
		if err := localapi.Decode(r, &in); err != nil {
			return err
		}
		close(entered)
		<-r.Context().Done()
		close(left)
		return r.Context().Err()
	}
	client := serve(t, localapi.Options{}, post(wait))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-entered
		cancel()
	}()
	if err := client.Do(ctx, "POST", "/x", thing{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the handler still runs")
	}
}

// TestThousandWaiters holds a thousand requests open at once and lets them all go.
func TestThousandWaiters(t *testing.T) {
	const n = 1000
	var entered, left sync.WaitGroup
	entered.Add(n)
	open := make(chan struct{})
	client := serve(t, localapi.Options{}, post(func(w http.ResponseWriter, r *http.Request) error {
		entered.Done()
		<-open
		return echo(w, r)
	}))
	for i := range n {
		left.Go(func() {
			var out thing
			if err := client.Do(context.Background(), "POST", "/x", thing{Size: i}, &out); err != nil || out.Size != i {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
	entered.Wait()
	close(open)
	left.Wait()
}

func TestLostConnection(t *testing.T) {
	client := serve(t, localapi.Options{}, post(func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }))
	err := client.Do(context.Background(), "POST", "/x", nil, nil)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "lost the connection") {
		t.Errorf("error %v", err)
	}
}

const panicEnv = "LOCALAPI_TEST_PANIC"

// panicServer serves a handler that panics and calls it; it is what the child process of the next test does.
func panicServer() {
	ln, err := localapi.Listen(os.Getenv(panicEnv), 0o600)
	if err != nil {
		os.Exit(3)
	}
	routes := []localapi.Route{post(func(http.ResponseWriter, *http.Request) error { panic("state is broken") })}
	go localapi.Server(localapi.Handler(routes, localapi.Options{})).Serve(ln)
	_ = localapi.NewClient(os.Getenv(panicEnv)).Do(context.Background(), "POST", "/x", nil, nil)
	os.Exit(0) // net/http swallowed the panic
}

func TestPanicEndsTheProcess(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), panicEnv+"="+socketPath(t))
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "internal error: handler: state is broken") {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"name":"a","size":1}`, `{"name":"a"}{}`, `{"nome":1}`, "null", "[", "\xff", `{"name":"\ud800"}`,
		`{"size":1e99}`, strings.Repeat("[", 20000), `{"name":"` + strings.Repeat("x", 600) + `"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/x", strings.NewReader(string(body)))
		r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, 512)
		var v thing
		err := localapi.Decode(r, &v)
		if err == nil {
			if len(body) > 512 {
				t.Error("a body over the bound was taken")
			}
			if rest, _ := io.ReadAll(r.Body); len(rest) > 0 {
				t.Errorf("%q was left unread", rest)
			}
			return
		}
		if kind := fault.KindOf(err); kind != fault.Invalid && kind != fault.TooLarge {
			t.Errorf("kind %q: %v", kind, err)
		}
	})
}

func BenchmarkDo(b *testing.B) {
	client := serve(b, localapi.Options{}, post(echo))
	in, out := thing{Name: "a"}, thing{}
	b.ReportAllocs()
	for b.Loop() {
		if err := client.Do(context.Background(), "POST", "/x", in, &out); err != nil {
			b.Fatal(err)
		}
	}
}
