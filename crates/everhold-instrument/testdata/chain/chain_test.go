package chain

import (
	"net"
	"testing"
)

func TestNumbersArePassedOn(t *testing.T) {
	next, first := "", ""
	done := make(chan int)
	for id := 3; id >= 1; id-- {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		link := New(id, 10*id, next)
		go link.Serve(listener, done)
		next = listener.Addr().String()
		first = next
	}
	for number := 0; number < 80; number++ {
		if err := Give(first, number*number%97); err != nil {
			t.Fatal(err)
		}
		if got := <-done; got != number*number%97+60 {
			t.Fatalf("got %d", got)
		}
	}
}
