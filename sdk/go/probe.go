// Package everhold observes a node of a distributed system while it runs, and sends what it shows to
// `everhold watch` or records it in files. It speaks the same protocol and writes the same files as
// the probe in Rust (crates/everhold-live); docs/live.md describes both.
//
// Nothing here may harm the application: an observation takes a lock that is held for a few
// instructions and puts a record into a buffer of bounded size; what does not fit is dropped and
// counted.
package everhold

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options are the settings of a probe.
type Options struct {
	// System is the name of the system.
	System string
	// Node is the number of the node, which is unique in the system.
	Node uint32
	// Name and Kind are for people and for properties.
	Name, Kind string
	// Incarnation increases with each start of the node; by default it is the time of day.
	Incarnation uint64
	// Checkers are the addresses of watches.
	Checkers []string
	// Secret is the secret that the watches require, if any.
	Secret string
	// Recording is the folder for a recording, if any.
	Recording string
	// SegmentBytes and Segments bound a recording: by default eight segments of 4 MiB.
	SegmentBytes int64
	Segments     int
	// Buffer is the number of records that wait for being sent; by default 16,384.
	Buffer int
	// Refresh observes everything once. It runs when a watch connects and after records were
	// dropped; without it a watch knows only what is observed after that.
	Refresh func(*Probe)
	// Report is told about problems; by default they go to standard error.
	Report func(string)
}

const (
	period    = 5 * time.Millisecond
	heartbeat = 50 * time.Millisecond
	stampBits = 12
	// The largest lead of another node over the own clock.
	aheadMax = uint64(time.Second/time.Microsecond) << stampBits
)

// Probe shows one node.
type Probe struct {
	options Options
	watched int32
	dropped uint64

	mutex   sync.Mutex
	buffer  []record
	lost    uint64 // since the buffer was last emptied
	clock   uint64
	offset  int64 // of the first watch's clock, in units of stamps
	pushed  uint64
	sent    uint64
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

// Start starts a probe.
func Start(options Options) (*Probe, error) {
	if options.Name == "" {
		options.Name = fmt.Sprintf("n%d", options.Node)
	}
	if options.Kind == "" {
		options.Kind = "node"
	}
	if options.System == "" {
		options.System = "system"
	}
	if options.Incarnation == 0 {
		options.Incarnation = uint64(time.Now().UnixMicro())
	}
	if options.Buffer <= 0 {
		options.Buffer = 1 << 14
	}
	if options.Segments < 2 {
		options.Segments = 8
	}
	if options.SegmentBytes <= 0 {
		options.SegmentBytes = 4 << 20
	}
	if options.Node == Nobody {
		return nil, errors.New("the node has no number")
	}
	if options.Report == nil {
		options.Report = func(text string) { fmt.Fprintln(os.Stderr, "everhold:", text) }
	}
	p := &Probe{options: options, stop: make(chan struct{}), stopped: make(chan struct{})}
	if options.Recording != "" {
		atomic.StoreInt32(&p.watched, 1)
	}
	go p.run()
	return p, nil
}

// Close sends and writes what is left, and says goodbye.
func (p *Probe) Close() {
	p.once.Do(func() { close(p.stop) })
	<-p.stopped
}

// IsWatched returns whether there is an observer.
func (p *Probe) IsWatched() bool { return atomic.LoadInt32(&p.watched) != 0 }

// Dropped returns the number of records that were dropped so far.
func (p *Probe) Dropped() uint64 { return atomic.LoadUint64(&p.dropped) }

// Observe records that a variable has a value from now on.
func (p *Probe) Observe(name string, value interface{}) {
	if p.IsWatched() {
		p.put(record{what: whatObserve, fields: []field{{name, Plain(value)}}})
	}
}

// Add records that the tuple `relation(key, value)` begins to hold; a key has one value.
func (p *Probe) Add(relation string, key, value interface{}) { p.tuple(whatAdd, relation, key, value) }

// Remove records that a tuple ceases to hold.
func (p *Probe) Remove(relation string, key, value interface{}) {
	p.tuple(whatRemove, relation, key, value)
}

func (p *Probe) tuple(what byte, relation string, key, value interface{}) {
	if p.IsWatched() {
		p.put(record{what: what, name: relation, fields: []field{{"", Plain(key)}, {"", Plain(value)}}})
	}
}

// Step begins a step of the service; what is observed until the next one belongs to it.
func (p *Probe) Step(label string) {
	if p.IsWatched() {
		p.put(record{what: whatLocal, name: label})
	}
}

// Send records the sending of a message to a node, or to somebody if `to` is negative. The
// envelope has to travel with the message.
func (p *Probe) Send(to int64, label string) Envelope {
	receiver := uint64(0)
	if to >= 0 {
		receiver = uint64(to) + 1
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	seq := p.sent
	p.sent++
	if p.IsWatched() {
		p.putLocked(record{what: whatSend, to: receiver, seq: seq, name: label})
	}
	return Envelope{At: p.tick(), Sender: p.options.Node, Seq: seq}
}

// Receive records the arrival of a message: a step begins, which is ordered after the sending. It
// fails if the clock of the sender cannot be right.
func (p *Probe) Receive(v Envelope) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := p.now()
	var wrong error
	if v.At > now+aheadMax {
		wrong = errors.New("the clock of the sender is more than a second ahead")
	} else if v.At > p.clock {
		p.clock = v.At
		if v.At > now && v.At-now > p.pushed {
			p.pushed = v.At - now
		}
	}
	if !p.IsWatched() {
		return wrong
	}
	if v.Sender == Nobody {
		p.putLocked(record{what: whatInput, name: "message"})
	} else {
		p.putLocked(record{what: whatDeliver, to: uint64(v.Sender), seq: v.Seq})
	}
	return wrong
}

// observeAll records several variables in one step.
func (p *Probe) observeAll(step string, fields []field) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.putLocked(record{what: whatLocal, name: step})
	p.putLocked(record{what: whatObserve, fields: fields})
}

func (p *Probe) put(r record) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.putLocked(r)
}

func (p *Probe) putLocked(r record) {
	r.at = p.tick()
	if len(p.buffer) >= p.options.Buffer {
		p.lost++
		atomic.AddUint64(&p.dropped, 1)
		return
	}
	p.buffer = append(p.buffer, r)
}

func wall() uint64 { return uint64(time.Now().UnixNano()) / 1000 << stampBits }

// now returns the physical time in that of the watch.
func (p *Probe) now() uint64 { return uint64(int64(wall()) + p.offset) }

// tick returns a stamp of its own.
func (p *Probe) tick() uint64 {
	if now := p.now(); now > p.clock {
		p.clock = now
	} else {
		p.clock++
	}
	return p.clock
}

// take empties the buffer, and returns a stamp that the node has passed.
func (p *Probe) take() ([]record, uint64, uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	records, lost := p.buffer, p.lost
	p.buffer, p.lost = nil, 0
	return records, lost, p.tick()
}

// run empties the buffer until the probe is closed.
func (p *Probe) run() {
	defer close(p.stopped)
	links := []*link{}
	for at, address := range p.options.Checkers {
		l := &link{probe: p, address: address, isFirst: at == 0, queue: make(chan []byteser, 64), ended: make(chan struct{})}
		links = append(links, l)
		go l.run()
	}
	var writer *recording
	if p.options.Recording != "" {
		writer = newRecording(&p.options)
	}
	var number uint64
	beaten := time.Now()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for open := true; open; {
		select {
		case <-ticker.C:
		case <-p.stop:
			open = false
		}
		p.audience(links, writer != nil)
		records, lost, passed := p.take()
		if writer != nil {
			writer.take(records, lost)
		}
		if len(records) > 0 || lost > 0 {
			number = p.offer(links, number, lost, records)
		}
		if time.Since(beaten) >= heartbeat || !open {
			beaten = time.Now()
			for _, l := range links {
				l.beat(passed, !open)
			}
		}
	}
	for _, l := range links {
		close(l.queue)
		<-l.ended
	}
	if writer != nil {
		writer.end()
	}
}

// offer hands batches to the links; returns the number of the last.
func (p *Probe) offer(links []*link, number, lost uint64, records []record) uint64 {
	for {
		part := records
		if len(part) > batchMax {
			part = part[:batchMax]
		}
		records = records[len(part):]
		number++
		for _, l := range links {
			l.offer(batch{number, lost, part})
		}
		lost = 0
		if len(records) == 0 {
			return number
		}
	}
}

// audience decides whether there is an observer, and shows everything to new ones.
func (p *Probe) audience(links []*link, records bool) {
	watched, fresh := records, false
	for _, l := range links {
		if atomic.LoadInt32(&l.connected) != 0 {
			watched = true
			fresh = atomic.CompareAndSwapInt32(&l.needs, 1, 0) || fresh
		}
	}
	value := int32(0)
	if watched {
		value = 1
	}
	if fresh && p.options.Refresh != nil {
		p.put(record{what: whatRefresh})
		atomic.StoreInt32(&p.watched, value)
		before := p.Dropped()
		p.options.Refresh(p)
		if p.Dropped() == before {
			p.put(record{what: whatWhole})
		}
		return
	}
	atomic.StoreInt32(&p.watched, value)
}
