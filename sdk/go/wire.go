package everhold

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
)

// The version of the tuple protocol; see crates/everhold-trace/src/wire.rs, which describes it.
const version = 2

const (
	frameGreeting = iota + 1
	frameHello
	frameBatch
	frameHeartbeat
	frameBye
	frameAck
	frameRefuse
	framePing
	framePong
	frameClock
)

const (
	frameMax = 1 << 20
	namesMax = 1 << 16
)

// Nobody is the sender of messages from nodes without a number.
const Nobody = math.MaxUint32

// Map is a value: pairs of keys and values, in an order that does not matter.
type Map [][2]interface{}

// Record is a value with named fields.
type Record map[string]interface{}

type encoder struct {
	names map[string]int
	out   []byte
}

func (e *encoder) number(n uint64) {
	for n >= 0x80 {
		e.out = append(e.out, byte(n)|0x80)
		n >>= 7
	}
	e.out = append(e.out, byte(n))
}

func (e *encoder) signed(n int64) { e.number(uint64(n)<<1 ^ uint64(n>>63)) }

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.out = append(e.out, s...)
}

func (e *encoder) name(s string) {
	if at, known := e.names[s]; known {
		e.number(uint64(at) + 2)
		return
	}
	at := len(e.names)
	if at >= namesMax {
		e.out = append(e.out, 0)
		e.text(s)
		return
	}
	e.out = append(e.out, 1)
	e.text(s)
	e.names[s] = at
}

func (e *encoder) value(v interface{}) {
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, 0)
	case bool:
		e.out = append(e.out, 1)
		if v {
			e.out[len(e.out)-1] = 2
		}
	case int64:
		e.out = append(e.out, 3)
		e.signed(v)
	case float64:
		e.out = append(e.out, 4)
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(v))
	case string:
		e.out = append(e.out, 5)
		e.text(v)
	case []interface{}:
		e.out = append(e.out, 7)
		e.number(uint64(len(v)))
		for _, item := range v {
			e.value(item)
		}
	case Map:
		e.out = append(e.out, 9)
		e.number(uint64(len(v)))
		for _, pair := range v {
			e.value(pair[0])
			e.value(pair[1])
		}
	case Record:
		e.out = append(e.out, 10)
		e.number(uint64(len(v)))
		for _, name := range keys(v) {
			e.name(name)
			e.value(v[name])
		}
	default:
		// Values are made plain before they are recorded.
		e.out = append(e.out, 0)
	}
}

func keys(record Record) []string {
	names := make([]string, 0, len(record))
	for name := range record {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

const (
	whatObserve = 1
	whatAdd     = 3
	whatRemove  = 4
	whatSend    = 5
	whatDeliver = 7
	whatInput   = 9
	whatLocal   = 12
	whatRefresh = 14
	whatWhole   = 15
)

// field is the name and the value of a variable.
type field struct {
	name  string
	value interface{}
}

// record is something that happened at the node.
type record struct {
	at     uint64
	what   byte
	name   string  // of a step, a relation or a kind of message
	fields []field // of an observation; of a tuple the key and the value
	to     uint64  // of a message: the receiver and one, or nothing; of an arrival the sender
	seq    uint64
}

func (e *encoder) record(r *record, last uint64) {
	e.out = append(e.out, r.what)
	e.signed(int64(r.at - last))
	switch r.what {
	case whatObserve:
		e.number(uint64(len(r.fields)))
		for _, f := range r.fields {
			e.name(f.name)
			e.value(f.value)
		}
	case whatAdd, whatRemove:
		e.name(r.name)
		e.value(r.fields[0].value)
		e.value(r.fields[1].value)
	case whatSend:
		e.number(r.to)
		e.number(r.seq)
		e.name(r.name)
	case whatDeliver:
		e.number(r.to)
		e.number(r.seq)
	case whatInput, whatLocal:
		e.name(r.name)
	}
}

// frame returns a frame with this content.
func frame(kind byte, body []byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(body)+1))
	return append(append(out, kind), body...)
}

func stamped(kind byte, stamps ...uint64) []byte {
	var e encoder
	for _, at := range stamps {
		e.number(at)
	}
	return frame(kind, e.out)
}

// hello returns the introduction of the node, with the proof that it knows the secret.
func hello(o *Options, checkers uint16, nonce []byte) []byte {
	body := func(proof []byte) []byte {
		var e encoder
		e.out = append(e.out, "EVHD"...)
		e.out = binary.LittleEndian.AppendUint16(e.out, checkers)
		e.text(o.System)
		e.number(uint64(o.Node))
		e.text(o.Name)
		e.text(o.Kind)
		e.number(o.Incarnation)
		e.out = append(e.out, 0)
		e.text(string(proof))
		return e.out
	}
	if o.Secret == "" {
		return frame(frameHello, body(nil))
	}
	mac := hmac.New(sha256.New, []byte(o.Secret))
	mac.Write(nonce)
	mac.Write(body(nil))
	return frame(frameHello, body(mac.Sum(nil)))
}

// read returns the kind and the content of the next frame.
func read(from io.Reader) (byte, []byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n == 0 || n > frameMax {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(from, body); err != nil {
		return 0, nil, err
	}
	return body[0], body[1:], nil
}

func takeNumber(body []byte) (uint64, []byte, error) {
	n, used := binary.Uvarint(body)
	if used <= 0 {
		return 0, nil, errors.New("a number is missing")
	}
	return n, body[used:], nil
}

// Envelope travels with a message.
type Envelope struct {
	// At is the clock of the sender.
	At uint64
	// Sender is the number of the sender, or Nobody.
	Sender uint32
	// Seq is the sender's count of messages.
	Seq uint64
}

// String returns the form for a header, under the name `everhold`.
func (v Envelope) String() string { return fmt.Sprintf("00-%016x-%08x-%x", v.At, v.Sender, v.Seq) }

// ParseEnvelope reads the form for a header.
func ParseEnvelope(text string) (Envelope, error) {
	var v Envelope
	if n, err := fmt.Sscanf(text, "00-%16x-%8x-%x", &v.At, &v.Sender, &v.Seq); n != 3 || err != nil {
		return Envelope{}, errors.New("the header carries no Everhold envelope")
	}
	return v, nil
}

// Bytes returns the compact form, to be put in front of a message.
func (v Envelope) Bytes() []byte {
	e := encoder{out: []byte{0}}
	e.out = binary.LittleEndian.AppendUint64(e.out, v.At)
	e.number(uint64(v.Sender))
	e.number(v.Seq)
	return e.out
}

// TakeEnvelope reads the compact form from the front of a message and returns the rest.
func TakeEnvelope(message []byte) (Envelope, []byte, error) {
	if len(message) < 11 || message[0] != 0 {
		return Envelope{}, nil, errors.New("the message carries no Everhold envelope")
	}
	v := Envelope{At: binary.LittleEndian.Uint64(message[1:9])}
	sender, rest, err := takeNumber(message[9:])
	if err != nil || sender > math.MaxUint32 {
		return Envelope{}, nil, errors.New("the envelope is malformed")
	}
	v.Sender = uint32(sender)
	v.Seq, rest, err = takeNumber(rest)
	return v, rest, err
}
