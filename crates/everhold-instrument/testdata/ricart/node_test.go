package ricart

import (
	"net"
	"sync"
	"testing"
)

func cluster(t *testing.T, size int) []*Node {
	nodes := []*Node{}
	for id := 0; id < size; id++ {
		conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, New(id, conn, "node"))
	}
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				a.Join(b.id, b.conn.LocalAddr().(*net.UDPAddr))
			}
		}
		go a.Serve()
	}
	return nodes
}

func TestOneAtATime(t *testing.T) {
	nodes := cluster(t, 3)
	inside, wait := 0, sync.WaitGroup{}
	for _, n := range nodes {
		wait.Add(1)
		go func(n *Node) {
			defer wait.Done()
			for i := 0; i < 40; i++ {
				n.Enter()
				inside++
				if inside != 1 {
					t.Error("two nodes are inside")
				}
				inside--
				n.Leave()
			}
		}(n)
	}
	wait.Wait()
}
