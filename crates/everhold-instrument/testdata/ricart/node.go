// Package ricart is the mutual exclusion of Ricart and Agrawala over UDP.
package ricart

import (
	"encoding/json"
	"net"
	"sync"
)

// Message is a request to enter, or a permission.
type Message struct {
	From    int
	Clock   int
	Request bool
}

// Node is a participant.
type Node struct {
	id        int
	conn      *net.UDPConn
	peers     map[int]*net.UDPAddr
	mutex     sync.Mutex
	permitted *sync.Cond
	clock     int
	wants     bool
	requested int
	replies   int
	critical  bool
	entered   int
	deferred  []int
	closed    bool
	label     string
}

// New makes a node on a socket.
func New(id int, conn *net.UDPConn, label string) *Node {
	n := &Node{id: id, conn: conn, peers: map[int]*net.UDPAddr{}, label: label}
	n.permitted = sync.NewCond(&n.mutex)
	return n
}

// Label returns what a person calls the node.
func (n *Node) Label() string { return n.label }

// Join makes another node known.
func (n *Node) Join(id int, address *net.UDPAddr) { n.peers[id] = address }

// Serve answers messages until the socket is closed.
func (n *Node) Serve() {
	buffer := make([]byte, 1024)
	for {
		length, _, err := n.conn.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		var message Message
		if json.Unmarshal(buffer[:length], &message) == nil {
			n.handle(message)
		}
	}
}

func (n *Node) handle(message Message) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if message.Clock > n.clock {
		n.clock = message.Clock
	}
	n.clock++
	if !message.Request {
		n.replies++
		n.permitted.Broadcast()
		return
	}
	mine := n.wants && (n.requested < message.Clock || n.requested == message.Clock && n.id < message.From)
	if n.critical || mine {
		n.deferred = append(n.deferred, message.From)
		return
	}
	n.send(message.From, Message{n.id, n.clock, false})
}

func (n *Node) send(to int, message Message) {
	bytes, _ := json.Marshal(message)
	n.conn.WriteToUDP(bytes, n.peers[to])
}

// Enter waits until the node is in the critical section.
func (n *Node) Enter() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.clock++
	n.wants, n.requested, n.replies = true, n.clock, 0
	for peer := range n.peers {
		n.send(peer, Message{n.id, n.requested, true})
	}
	for n.replies < len(n.peers) {
		n.permitted.Wait()
	}
	n.critical = true
	n.entered++
}

// Leave leaves the critical section.
func (n *Node) Leave() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.critical, n.wants = false, false
	for _, peer := range n.deferred {
		n.send(peer, Message{n.id, n.clock, false})
	}
	n.deferred = nil
}
