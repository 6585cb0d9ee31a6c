package transport_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"playground/fault"
	"playground/transport"
)

// doorWorld serves a door whose one valid token is "tok-operator".
type doorWorld struct {
	*world
	url string

	mu      sync.Mutex // guards what follows
	revoked bool
	broken  error
	seen    []*http.Request
}

func newDoor(t *testing.T, next http.HandlerFunc) *doorWorld {
	t.Helper()
	d := &doorWorld{world: newWorld(t, func(o *transport.Options) { o.AllowedOrigins = []string{"https://ui.example"} })}
	handler := d.transport.Guard(transport.Door{
		Authenticate: func(_ context.Context, token string) (string, error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.broken != nil {
				return "", d.broken
			}
			if token == "tok-operator" && !d.revoked {
				return "id1", nil
			}
			return "", fault.New(fault.Denied, "no")
		},
		Open: func(path string) bool { return path == "/health" },
		Refuse: func(w http.ResponseWriter, status int, message, _ string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "refused: "+message)
		},
		Next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.mu.Lock()
			d.seen = append(d.seen, r)
			d.mu.Unlock()
			if next != nil {
				next(w, r)
			}
		}),
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	d.url = "http://" + listener.Addr().String()
	return d
}

func (d *doorWorld) get(ctx context.Context, path string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", d.url+path, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Add(header[i], header[i+1])
	}
	return d.http.Do(r)
}

func TestDoor(t *testing.T) {
	d := newDoor(t, nil)
	good := []string{"Authorization", "Bearer tok-operator"}
	for name, test := range map[string]struct {
		path   string
		header []string
		want   int
	}{
		"no token":            {"/v1/runs", nil, 401},
		"a tenant's token":    {"/v1/runs", []string{"Authorization", "Bearer tok-alice"}, 401},
		"two tokens":          {"/v1/runs", append([]string{"Authorization", "Bearer tok-alice"}, good...), 401},
		"basic":               {"/v1/runs", []string{"Authorization", "Basic tok-operator"}, 401},
		"good":                {"/v1/runs", good, 200},
		"open":                {"/health", nil, 200},
		"below what is open":  {"/health/x", nil, 401},
		"rebound name":        {"/v1/runs", append([]string{"Host", "evil.example"}, good...), 403},
		"rebound, open":       {"/health", []string{"Host", "evil.example"}, 403},
		"foreign page":        {"/v1/runs", append([]string{"Origin", "https://evil.example"}, good...), 403},
		"page of the console": {"/v1/runs", append([]string{"Origin", "https://ui.example"}, good...), 200},
	} {
		r, err := d.get(t.Context(), test.path, test.header...)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		if r.StatusCode != test.want {
			t.Errorf("%s: %d, want %d", name, r.StatusCode, test.want)
		}
		if challenge := r.Header.Get("WWW-Authenticate"); (r.StatusCode == 401) != strings.HasPrefix(challenge, "Bearer") {
			t.Errorf("%s: WWW-Authenticate is %q", name, challenge)
		}
	}
	for _, r := range d.seen {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went on")
		}
	}
	if log := d.log.String(); !strings.Contains(log, `"check":"operator_token"`) || !strings.Contains(log, `"security":true`) {
		t.Errorf("the security log says %s", log)
	}
	d.mu.Lock()
	d.broken = errors.New("disk")
	d.mu.Unlock()
	r, err := d.get(t.Context(), "/v1/runs", good...)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != 503 {
		t.Errorf("tokens that cannot be checked: %d", r.StatusCode)
	}
}

// A stream that never ends by itself ends with its token.
func TestDoorForgets(t *testing.T) {
	ended := make(chan struct{})
	d := newDoor(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	})
	r, err := d.get(t.Context(), "/v1/events/stream", "Authorization", "Bearer tok-operator")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	d.mu.Lock()
	d.revoked = true
	d.mu.Unlock()
	d.transport.ForgetOperator("another")
	select {
	case <-ended:
		t.Fatal("another token's end ended it")
	default:
	}
	d.transport.ForgetOperator("id1")
	<-ended
}
