package everhold

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestPlainValues(t *testing.T) {
	type inner struct{ Name string }
	type outer struct {
		Count  uint8
		Inner  *inner
		hidden int
	}
	for _, c := range []struct {
		value interface{}
		want  string
	}{
		{nil, "null"}, {true, "true"}, {7, "7"}, {uint64(1) << 63, `"9223372036854775808"`},
		{1.0, "1.0"}, {"x", `"x"`}, {[]int{1, 2}, "[1,2]"}, {map[int]string{1: "a"}, `{"$map":[[1,"a"]]}`},
		{outer{1, &inner{"a"}, 2}, `{"Count":1,"Inner":{"Name":"a"}}`}, {Record{"b": 1}, `{"b":1}`},
	} {
		if got := string(text(Plain(c.value))); got != c.want {
			t.Errorf("%v: %s, not %s", c.value, got, c.want)
		}
	}
}

func TestFieldsAreReadHoweverHidden(t *testing.T) {
	type state struct{ term uint64 }
	type node struct {
		state
		log []string
	}
	n := &node{state{3}, []string{"a"}}
	for name, want := range map[string]string{"term": "3", "log": `["a"]`, "none": "null"} {
		if got := string(text(look(Field(n, name)))); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	if got := Field((*node)(nil), "term"); got.IsValid() {
		t.Error("a field of nothing")
	}
}

func TestEnvelopes(t *testing.T) {
	v := Envelope{At: 1_000_000 << 12, Sender: 3, Seq: 41}
	if v.String() != "00-00000000f4240000-00000003-29" || len(v.Bytes()) != 11 {
		t.Fatal(v.String(), v.Bytes())
	}
	parsed, err := ParseEnvelope(v.String())
	if err != nil || parsed != v {
		t.Fatal(parsed, err)
	}
	taken, rest, err := TakeEnvelope(append(v.Bytes(), "rest"...))
	if err != nil || taken != v || string(rest) != "rest" {
		t.Fatal(taken, string(rest), err)
	}
	if _, _, err := TakeEnvelope([]byte("none")); err == nil {
		t.Error("no envelope")
	}
}

func lines(t *testing.T, folder string) []map[string]interface{} {
	found := []map[string]interface{}{}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
			var fields map[string]interface{}
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(line, err)
			}
			found = append(found, fields)
		}
	}
	return found
}

func TestARecordingHasTheSteps(t *testing.T) {
	folder := t.TempDir()
	p, err := Start(Options{System: "bank", Node: 1, Name: "teller", Recording: folder})
	if err != nil {
		t.Fatal(err)
	}
	p.Step("pay")
	p.Observe("balance", 250)
	p.Add("holds", 7, "exclusive")
	p.Observe("balance", 240)
	p.Remove("holds", 7, "exclusive")
	p.Send(2, "Transfer")
	p.Receive(Envelope{At: 1, Sender: 2, Seq: 9})
	p.Close()
	kinds, states := []string{}, []string{}
	for _, line := range lines(t, folder) {
		if line["is"] == "event" {
			kinds = append(kinds, line["kind"].(string))
			if line["state"] != nil {
				state, _ := json.Marshal(line["state"])
				states = append(states, string(state))
			}
		}
	}
	if want := []string{"local", "local", "local", "local", "deliver"}; !reflect.DeepEqual(kinds, want) {
		t.Error(kinds)
	}
	want := []string{
		`{"balance":250,"holds":{"$map":[[7,"exclusive"]]}}`,
		`{"balance":240,"holds":{"$map":[[7,"exclusive"]]}}`,
		`{"balance":240,"holds":{"$map":[]}}`,
	}
	if !reflect.DeepEqual(states, want) {
		t.Error(states)
	}
}

func TestABufferIsBoundedAndTheRestIsCounted(t *testing.T) {
	p, err := Start(Options{Node: 1, Recording: t.TempDir(), Buffer: 10})
	if err != nil {
		t.Fatal(err)
	}
	p.mutex.Lock()
	for i := 0; i < 25; i++ {
		p.putLocked(record{what: whatLocal, name: "step"})
	}
	p.mutex.Unlock()
	if p.Dropped() < 15 {
		t.Error(p.Dropped())
	}
	p.Close()
}

func TestSegmentsAreBounded(t *testing.T) {
	folder := t.TempDir()
	r := newRecording(&Options{System: "s", Name: "n", Kind: "k", Recording: folder, Segments: 3, SegmentBytes: 2000})
	for i := uint64(1); i < 400; i++ {
		r.take([]record{{at: i << stampBits, what: whatLocal, name: "step"}}, 0)
	}
	r.end()
	if kept := r.segments(); len(kept) != 3 {
		t.Error(kept)
	}
}

func TestMapsOfOthersAreShownByTheirLengthWhileTheyAreWritten(t *testing.T) {
	if shown := look(reflect.ValueOf(map[int]int{1: 2})); shown != int64(1) {
		t.Error(shown)
	}
	written, done := map[int]int{}, make(chan bool)
	go func() {
		for i := 0; i < 1_000_000; i++ {
			written[i%8] = i
		}
		close(done)
	}()
	for isDone := false; !isDone; {
		select {
		case <-done:
			isDone = true
		default:
			look(reflect.ValueOf(&written))
		}
	}
}
