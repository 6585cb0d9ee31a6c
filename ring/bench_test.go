package ring_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"playground/ring"
)

// BenchmarkLogPolled writes as a command's output pump does while a poller reads pages of the default size, and reports
// how much the poller saw.
func BenchmarkLogPolled(b *testing.B) {
	for _, size := range []int{80, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("write=%d", size), func(b *testing.B) {
			l := ring.New(4<<20, 1024)
			p := []byte(strings.Repeat("0123456789abcde\n", size/16+1)[:size])
			var wg sync.WaitGroup
			var read int64
			wg.Go(func() { read = drain(b, l) })
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				l.Write(ring.Stdout, p)
			}
			b.StopTimer()
			l.Close()
			wg.Wait()
			b.ReportMetric(100*float64(read)/float64(l.Total(ring.Stdout)), "%read")
		})
	}
}

// BenchmarkLogLossless writes and reads back every byte, one page at a time.
func BenchmarkLogLossless(b *testing.B) {
	l := ring.New(4<<20, 1024)
	p := []byte(strings.Repeat("0123456789abcde\n", 4<<10))
	var cursor int64
	b.SetBytes(4 * int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		for range 4 {
			l.Write(ring.Stdout, p)
		}
		page, err := l.Read(cursor, 256<<10)
		if err != nil || page.More || page.Gap {
			b.Fatalf("page %v, %v, %v", page.More, page.Gap, err)
		}
		cursor = page.Next
	}
}

// drain reads l to its end and returns how many bytes it got.
func drain(b *testing.B, l *ring.Log) (read int64) {
	var cursor int64
	for {
		if err := l.Wait(context.Background(), cursor); err != nil {
			b.Error(err)
			return read
		}
		page, err := l.Read(cursor, 256<<10)
		if err != nil {
			b.Error(err)
			return read
		}
		for _, c := range page.Chunks {
			read += int64(len(c.Data))
		}
		cursor = page.Next
		if page.Closed && !page.More {
			return read
		}
	}
}

// BenchmarkCapture writes far more than is kept.
func BenchmarkCapture(b *testing.B) {
	c := ring.NewCapture(16<<10, 16<<10)
	p := make([]byte, 32<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		c.Write(ring.Stdout, p)
	}
}
