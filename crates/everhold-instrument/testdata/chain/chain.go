// Package chain hands a number from link to link over TCP; each adds its part.
package chain

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Link is a member of the chain.
type Link struct {
	id       int
	weight   int
	next     string
	received int
	sent     int
	count    int
	colour   string
}

// New makes a link that adds its weight; the last one has no next.
func New(id, weight int, next string) *Link {
	return &Link{id: id, weight: weight, next: next, colour: "blue"}
}

// Colour returns the colour, which nothing sends.
func (l *Link) Colour() string { return l.colour }

// Serve takes numbers in until the listener is closed.
func (l *Link) Serve(listener net.Listener, done chan<- int) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err != nil {
			continue
		}
		number, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			continue
		}
		l.pass(number)
		if l.next == "" {
			done <- l.sent
		}
	}
}

func (l *Link) pass(number int) {
	l.received = number
	l.sent = number + l.weight
	l.count++
	if l.next != "" {
		Give(l.next, l.sent)
	}
}

// Give hands a number to a link.
func Give(to string, number int) error {
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%d\n", number)
	return err
}
