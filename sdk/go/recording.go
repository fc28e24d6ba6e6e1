package everhold

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
)

// recording writes what happens as traces of bounded size, as docs/trace-format.md describes.
type recording struct {
	options *Options
	file    *os.File
	out     *bufio.Writer
	bytes   int64
	events  int
	number  int
	state   map[string]interface{}
	open    *event
	seen    map[string]bool
	is      map[string]bool // which variables are relations
	known   map[string]bool // the nodes of the file
	broken  bool
}

type event struct {
	Is      string          `json:"is"`
	Node    string          `json:"node"`
	Kind    string          `json:"kind"`
	Name    string          `json:"name,omitempty"`
	From    string          `json:"from,omitempty"`
	Seq     *uint64         `json:"seq,omitempty"`
	Sends   []send          `json:"sends,omitempty"`
	State   json.RawMessage `json:"state,omitempty"`
	Time    uint64          `json:"time"`
	WallNs  uint64          `json:"wall_ns"`
	Text    string          `json:"text,omitempty"`
	step    bool
	changed bool
}

type send struct {
	To    string `json:"to,omitempty"`
	Seq   uint64 `json:"seq"`
	Label string `json:"label"`
}

func newRecording(options *Options) *recording {
	r := &recording{options: options, state: map[string]interface{}{}, seen: map[string]bool{}, is: map[string]bool{}}
	for _, path := range r.segments() {
		fmt.Sscanf(filepath.Base(path)[len(options.Name):], ".%06d.jsonl", &r.number)
		r.number++
	}
	return r
}

// segments returns the files of this node, oldest first.
func (r *recording) segments() []string {
	found, _ := filepath.Glob(filepath.Join(r.options.Recording, r.options.Name+".[0-9]*.jsonl"))
	sort.Strings(found)
	return found
}

// take takes in records.
func (r *recording) take(records []record, lost uint64) {
	if lost > 0 && r.open != nil {
		r.open.Text = fmt.Sprintf("%d records were dropped about here", lost)
	}
	for at := range records {
		r.record(&records[at])
	}
	if len(records) == 0 && r.open != nil {
		// A process may be killed at any time.
		r.finish()
	}
	if r.out != nil && r.out.Flush() != nil {
		r.fail()
	}
}

func (r *recording) record(n *record) {
	switch n.what {
	case whatObserve:
		again := false
		for _, f := range n.fields {
			again = again || r.seen[f.name]
		}
		r.belongs(n.at, again)
		for _, f := range n.fields {
			r.state[f.name], r.seen[f.name] = f.value, true
		}
		r.open.changed = true
	case whatAdd, whatRemove:
		r.belongs(n.at, false)
		r.relate(n)
		r.open.changed = true
	case whatSend:
		r.belongs(n.at, false)
		to := ""
		if n.to > 0 {
			to = fmt.Sprintf("n%d", n.to-1)
		}
		r.open.Sends = append(r.open.Sends, send{to, n.seq, n.name})
	case whatLocal:
		r.begin(event{Kind: "local", Name: n.name, step: true}, n.at)
	case whatInput:
		r.begin(event{Kind: "input", Name: n.name, step: true}, n.at)
	case whatDeliver:
		seq := n.seq
		r.begin(event{Kind: "deliver", From: fmt.Sprintf("n%d", n.to), Seq: &seq, step: true}, n.at)
	}
}

func (r *recording) relate(n *record) {
	relation, _ := r.state[n.name].(Map)
	key, value := n.fields[0].value, n.fields[1].value
	same := func(a, b interface{}) bool { return string(text(a)) == string(text(b)) }
	next := Map{}
	for _, pair := range relation {
		if !same(pair[0], key) || n.what == whatRemove && !same(pair[1], value) {
			next = append(next, pair)
		}
	}
	if n.what == whatAdd {
		next = append(next, [2]interface{}{key, value})
	}
	r.state[n.name] = next
}

func (r *recording) belongs(at uint64, another bool) {
	if r.open == nil || !r.open.step || another {
		r.begin(event{Kind: "local", Name: "observe"}, at)
	}
}

func (r *recording) begin(e event, at uint64) {
	r.finish()
	e.Is, e.Node, e.Time, e.WallNs = "event", r.options.Name, at, at>>stampBits*1000
	r.open, r.seen = &e, map[string]bool{}
}

// finish writes the open event.
func (r *recording) finish() {
	e := r.open
	if e == nil {
		return
	}
	r.open = nil
	if e.changed {
		e.State = text(Record(r.state))
	}
	if r.broken {
		return
	}
	if r.out == nil || r.bytes > r.options.SegmentBytes {
		if err := r.turn(); err != nil {
			r.fail()
			return
		}
	}
	for _, s := range e.Sends {
		r.node(s.To)
	}
	r.node(e.From)
	r.line(e)
	r.events++
}

// node declares another node when it first appears.
func (r *recording) node(name string) {
	if name != "" && !r.known[name] {
		r.known[name] = true
		r.line(map[string]string{"is": "node", "name": name, "kind": ""})
	}
}

// turn ends the present segment, removes the oldest and begins the next.
func (r *recording) turn() error {
	r.close()
	if err := os.MkdirAll(r.options.Recording, 0o755); err != nil {
		return err
	}
	kept := r.segments()
	for len(kept) >= r.options.Segments {
		os.Remove(kept[0])
		kept = kept[1:]
	}
	path := filepath.Join(r.options.Recording, fmt.Sprintf("%s.%06d.jsonl", r.options.Name, r.number))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	r.number++
	r.file, r.out, r.bytes, r.events = file, bufio.NewWriter(file), 0, 0
	r.known = map[string]bool{r.options.Name: true}
	r.line(map[string]interface{}{"everhold": "trace", "version": 1})
	notes := map[string]interface{}{"system": r.options.System, "incarnation": r.options.Incarnation}
	r.line(map[string]interface{}{"is": "run", "name": r.options.System, "notes": notes})
	r.line(map[string]string{"is": "node", "name": r.options.Name, "kind": r.options.Kind})
	return nil
}

func (r *recording) line(value interface{}) {
	bytes, err := json.Marshal(value)
	if err == nil {
		r.bytes += int64(len(bytes)) + 1
		_, err = r.out.Write(append(bytes, '\n'))
	}
	if err != nil {
		r.fail()
	}
}

// fail gives the recording up; the service goes on.
func (r *recording) fail() {
	if !r.broken {
		r.broken = true
		r.options.Report("the recording into " + r.options.Recording + " ended: it cannot be written")
	}
}

func (r *recording) close() {
	if r.file != nil {
		r.line(map[string]interface{}{"is": "end", "events": r.events})
		r.out.Flush()
		r.file.Close()
	}
}

func (r *recording) end() {
	r.finish()
	r.close()
}

// text returns a value as the trace format writes it.
func text(v interface{}) json.RawMessage {
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			names := map[bool]string{true: "inf", false: "-inf"}
			name := names[v > 0]
			if math.IsNaN(v) {
				name = "NaN"
			}
			return json.RawMessage(fmt.Sprintf(`{"$float":%q}`, name))
		}
		bytes, _ := json.Marshal(v)
		if v == math.Trunc(v) && math.Abs(v) < 1e15 {
			bytes = append(bytes, ".0"...)
		}
		return bytes
	case []interface{}:
		return list("[", v, "]")
	case Map:
		pairs := make([]interface{}, len(v))
		for at, pair := range v {
			pairs[at] = []interface{}{pair[0], pair[1]}
		}
		return list(`{"$map":[`, pairs, "]}")
	case Record:
		out := []byte("{")
		for at, name := range keys(v) {
			if at > 0 {
				out = append(out, ',')
			}
			quoted, _ := json.Marshal(name)
			out = append(append(append(out, quoted...), ':'), text(v[name])...)
		}
		return append(out, '}')
	default:
		bytes, err := json.Marshal(v)
		if err != nil {
			return json.RawMessage("null")
		}
		return bytes
	}
}

func list(open string, items []interface{}, end string) json.RawMessage {
	out := []byte(open)
	for at, item := range items {
		if at > 0 {
			out = append(out, ',')
		}
		out = append(out, text(item)...)
	}
	return append(out, end...)
}
