package everhold

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	batchMax   = 1024
	firstPings = 8
	patience   = time.Second
	clockBeats = 4
)

// batch is what every watch gets alike.
type batch struct {
	number, lost uint64
	records      []record
}

// byteser makes the bytes of a frame, with the names of the connection.
type byteser func(*encoder) []byte

// link is the connection to one watch.
type link struct {
	probe     *Probe
	address   string
	isFirst   bool
	queue     chan []byteser
	ended     chan struct{}
	connected int32
	// Whether the watch does not know the state yet, or missed something.
	needs int32
	beats int

	mutex sync.Mutex
	best  uint64 // half of the fastest round trip
	ahead int64
	// Whether the last batch was handed over: a watch that missed one gets no promise.
	sound bool
}

func (l *link) offer(b batch) {
	if atomic.LoadInt32(&l.connected) == 0 {
		l.sound = false
		return
	}
	select {
	case l.queue <- []byteser{b.bytes}:
		l.sound = true
	default:
		l.sound = false
		atomic.StoreInt32(&l.needs, 1)
		atomic.AddUint64(&l.probe.dropped, uint64(len(b.records)))
	}
}

func (b batch) bytes(e *encoder) []byte {
	e.out = nil
	e.number(b.number)
	e.number(b.lost)
	e.number(uint64(len(b.records)))
	last := uint64(0)
	for at := range b.records {
		e.record(&b.records[at], last)
		last = b.records[at].at
	}
	return frame(frameBatch, e.out)
}

// beat promises that all records before a stamp were sent.
func (l *link) beat(passed uint64, isEnd bool) {
	if atomic.LoadInt32(&l.connected) == 0 || !l.sound && !isEnd {
		return
	}
	kind := byte(frameHeartbeat)
	if isEnd {
		kind = frameBye
	}
	frames := []byteser{func(*encoder) []byte { return stamped(kind, passed) }}
	l.beats++
	if l.beats%clockBeats == 0 && !isEnd {
		frames = append(frames,
			func(*encoder) []byte { return stamped(framePing, wall()) },
			func(*encoder) []byte { return l.clock() })
	}
	if isEnd {
		l.queue <- frames
		return
	}
	select {
	case l.queue <- frames:
	default:
	}
}

// clock tells how far the node's wall clock is ahead, and how exact its stamps are.
func (l *link) clock() []byte {
	l.probe.mutex.Lock()
	pushed, used := l.probe.pushed, l.probe.offset
	l.probe.pushed = 0
	l.probe.mutex.Unlock()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	apart := used - l.ahead
	if apart < 0 {
		apart = -apart
	}
	var e encoder
	e.signed(-l.ahead >> stampBits)
	// The operating system's clock is read in microseconds.
	e.number((l.best+pushed+uint64(apart))>>stampBits + 2)
	return frame(frameClock, e.out)
}

func (l *link) run() {
	defer close(l.ended)
	wait := 20 * time.Millisecond
	told := ""
	for {
		conn, e, err := l.connect()
		if err == nil {
			wait = 20 * time.Millisecond
			told = ""
			if l.serve(conn, e) {
				return
			}
		} else if text := fmt.Sprintf("checker %s: %v", l.address, err); text != told {
			l.probe.options.Report(text)
			told = text
		}
		if l.rest(wait) {
			return
		}
		if wait *= 2; wait > 500*time.Millisecond {
			wait = 500 * time.Millisecond
		}
	}
}

// rest waits; returns whether the probe ended.
func (l *link) rest(wait time.Duration) bool {
	until := time.After(wait)
	for {
		select {
		case _, open := <-l.queue:
			if !open {
				return true
			}
		case <-until:
			return false
		}
	}
}

func (l *link) connect() (net.Conn, *encoder, error) {
	conn, err := net.DialTimeout("tcp", l.address, patience)
	if err != nil {
		return nil, nil, err
	}
	if err := l.greet(conn); err != nil {
		conn.Close()
		return nil, nil, err
	}
	conn.SetDeadline(time.Time{})
	return conn, &encoder{names: map[string]int{}}, nil
}

func (l *link) greet(conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(2 * patience))
	kind, body, err := read(conn)
	if err != nil {
		return fmt.Errorf("it does not greet (%w)", err)
	}
	if kind != frameGreeting || len(body) < 22 || string(body[:4]) != "EVHD" {
		return fmt.Errorf("it does not greet as a checker does")
	}
	speaks := binary.LittleEndian.Uint16(body[4:6])
	if speaks < version {
		return fmt.Errorf("it speaks version %d of the protocol, this probe %d", speaks, version)
	}
	if _, err := conn.Write(hello(&l.probe.options, version, body[6:22])); err != nil {
		return err
	}
	kind, body, err = read(conn)
	if err != nil {
		return err
	}
	if kind == frameRefuse {
		_, text, _ := takeNumber(body[1:])
		return fmt.Errorf("it refuses: %s", text)
	}
	l.mutex.Lock()
	l.best = 1 << 62
	l.mutex.Unlock()
	for i := 0; i < firstPings; i++ {
		if _, err := conn.Write(stamped(framePing, wall())); err != nil {
			return err
		}
		for kind = 0; kind != framePong; {
			if kind, body, err = read(conn); err != nil {
				return err
			}
			l.heard(kind, body)
		}
	}
	return nil
}

// heard measures the clock of the watch by an answer.
func (l *link) heard(kind byte, body []byte) {
	if kind != framePong {
		return
	}
	sent, rest, err := takeNumber(body)
	if err != nil {
		return
	}
	at, _, err := takeNumber(rest)
	now := wall()
	if err != nil || now < sent {
		return
	}
	half := (now - sent) / 2
	l.mutex.Lock()
	// An old measurement is worth less, since clocks drift.
	l.best += l.best >> 6
	if half <= l.best {
		l.best, l.ahead = half+1, int64(at-(sent+half))
	}
	ahead := l.ahead
	l.mutex.Unlock()
	if l.isFirst {
		l.probe.mutex.Lock()
		l.probe.offset = ahead
		l.probe.mutex.Unlock()
	}
}

// serve sends until the probe ends (returns true) or the connection does.
func (l *link) serve(conn net.Conn, e *encoder) bool {
	if _, err := conn.Write(l.clock()); err != nil {
		conn.Close()
		return false
	}
	lost := make(chan struct{})
	go func() {
		defer close(lost)
		for {
			kind, body, err := read(conn)
			if err != nil || kind == frameRefuse {
				return
			}
			l.heard(kind, body)
		}
	}()
	l.sound = true
	atomic.StoreInt32(&l.needs, 1)
	atomic.StoreInt32(&l.connected, 1)
	defer func() {
		atomic.StoreInt32(&l.connected, 0)
		conn.Close()
		<-lost
	}()
	for {
		select {
		case frames, open := <-l.queue:
			if !open {
				return true
			}
			for _, frame := range frames {
				bytes := frame(e)
				if len(bytes) > frameMax {
					l.probe.options.Report("an observation is too large to be sent; observe less of it")
					return false
				}
				conn.SetWriteDeadline(time.Now().Add(patience))
				if _, err := conn.Write(bytes); err != nil {
					return false
				}
			}
		case <-lost:
			return false
		}
	}
}
