// A lock service in Go whose goroutines outgrow their stacks.
package main

import (
	"bufio"
	"fmt"
	"os"
)

type Stats struct{ Acquired uint32 }

type ClientNode struct {
	Padding uint64
	NodeID  uint64
	Name    string
	Stats   *Stats
}

//go:noinline
func (c *ClientNode) OnLockAcquired(lock uint64, mode string) uint64 {
	c.Stats.Acquired++
	return lock*2 + uint64(len(mode))
}

// Deep needs more stack than a new goroutine has.
//
//go:noinline
func (c *ClientNode) Deep(n uint64) uint64 {
	var room [64]uint64
	if n == 0 {
		return c.NodeID
	}
	room[n%64] = n
	return c.Deep(n-1) + room[n%64]
}

// Wide has a frame so large that the end of the stack is asked about in another way.
//
//go:noinline
func (c *ClientNode) Wide(n uint64) uint64 {
	var room [2048]uint64
	room[n%2048] = n
	c.Fill(&room)
	return room[n%2048]
}

//go:noinline
func (c *ClientNode) Fill(room *[2048]uint64) {
	room[0]++
}

// Least begins with a comparison of its arguments, and asks for no stack.
//
//go:nosplit
//go:noinline
func Least(a, b uint64) uint64 {
	if a > b {
		return b
	}
	return a
}

func main() {
	node := &ClientNode{NodeID: 7, Name: os.Args[2], Stats: &Stats{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var word string
		var number, sum uint64
		fmt.Sscanf(lines.Text(), "%s %d", &word, &number)
		if word == "deep" {
			for i := uint64(0); i < number; i++ {
				done := make(chan uint64)
				go func() { done <- node.Deep(200) }()
				sum += <-done
			}
		} else if word == "wide" {
			for i := uint64(0); i < number; i++ {
				done := make(chan uint64)
				go func() { done <- node.Wide(i) }()
				sum += <-done
			}
		} else if word == "least" {
			for i := uint64(0); i < number; i++ {
				sum += Least(i, number/2)
			}
		} else {
			for i := uint64(0); i < number; i++ {
				sum += node.OnLockAcquired(i, "exclusive")
			}
		}
		fmt.Println("done", lines.Text(), sum)
	}
}
