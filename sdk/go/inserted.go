package everhold

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The calls that `everhold instrument` inserts into the copy of a package. The nodes of a process
// are the process itself and, if there is a type whose values are nodes, each of these. They record
// into a folder of the run below the folder that EVERHOLD_RECORD names.

const nodesMax = 32

var base = os.Getenv("EVERHOLD_RECORD")

var rate = func() uint32 {
	if n, err := strconv.ParseUint(os.Getenv("EVERHOLD_RATE"), 10, 32); err == nil {
		return uint32(n)
	}
	return 2000
}()

type execution struct {
	folder    string
	isOwned   bool
	isFull    bool
	nodes     map[string]*Probe
	addresses map[uintptr]int
}

var (
	current *execution
	guard   sync.Mutex
	runs    int
	sites   sync.Map
)

type site struct {
	second  int64
	left    int32
	sampled int32
}

func newExecution(name string, isOwned bool) *execution {
	plain := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return c
		}
		return '-'
	}, name)
	folder := filepath.Join(base, fmt.Sprintf("%d-%05d-%s", os.Getpid(), runs, plain))
	runs++
	return &execution{folder: folder, isOwned: isOwned, nodes: map[string]*Probe{}, addresses: map[uintptr]int{}}
}

// Begin begins a run, unless one is under way; the result ends it.
func Begin(name string) func() {
	if base == "" {
		return func() {}
	}
	guard.Lock()
	if current != nil && current.isOwned {
		guard.Unlock()
		return func() {}
	}
	before := current
	current = newExecution(name, true)
	guard.Unlock()
	before.end()
	return func() {
		guard.Lock()
		ended := current
		current = nil
		guard.Unlock()
		ended.end()
	}
}

func (e *execution) end() {
	if e != nil {
		for _, probe := range e.nodes {
			probe.Close()
		}
	}
}

// See records variables at a place: names and values in turn. With a kind they belong to the node
// of that kind that `id` identifies.
func See(place, kind string, id interface{}, values ...interface{}) {
	if base == "" || !open(place) {
		return
	}
	// Whatever cannot be read must not harm the program.
	defer func() { _ = recover() }()
	fields := []field{}
	for at := 0; at+1 < len(values); at += 2 {
		value := values[at+1]
		part, isPart := value.(reflect.Value)
		if !isPart {
			part = reflect.ValueOf(value)
		}
		shown := look(part)
		if _, is := shown.(hidden); !is {
			fields = append(fields, field{values[at].(string), shown})
		}
	}
	if len(fields) == 0 {
		return
	}
	if probe := node(kind, id); probe != nil {
		probe.observeAll(place, fields)
	}
}

// Field returns a field of a structure, also of one that it embeds, or nothing.
func Field(of interface{}, name string) (found reflect.Value) {
	defer func() {
		if recover() != nil {
			found = reflect.Value{}
		}
	}()
	value, ok := of.(reflect.Value)
	if !ok {
		value = reflect.ValueOf(of)
	}
	return reflect.Indirect(value).FieldByName(name)
}

// open returns whether a place may record here and now.
func open(place string) bool {
	known, _ := sites.LoadOrStore(place, &site{second: -1})
	s := known.(*site)
	now := time.Now().Unix()
	if atomic.SwapInt64(&s.second, now) != now {
		atomic.StoreInt32(&s.left, int32(rate))
	}
	if atomic.AddInt32(&s.left, -1) >= 0 {
		return true
	}
	atomic.StoreInt32(&s.left, 0)
	if atomic.SwapInt32(&s.sampled, 1) == 0 {
		tell(place)
	}
	return false
}

// tell notes that observations of a place are left out.
func tell(place string) {
	guard.Lock()
	defer guard.Unlock()
	if current == nil || os.MkdirAll(current.folder, 0o755) != nil {
		return
	}
	path := filepath.Join(current.folder, "sampled")
	if file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
		fmt.Fprintln(file, place)
		file.Close()
	}
}

// node returns the probe of a node of the present run.
func node(kind string, id interface{}) *Probe {
	guard.Lock()
	defer guard.Unlock()
	if current == nil {
		current = newExecution("process", false)
	}
	name := current.name(&kind, id)
	if probe, known := current.nodes[name]; known || name == "" {
		return probe
	}
	if len(current.nodes) >= nodesMax {
		if !current.isFull {
			current.isFull = true
			fmt.Fprintf(os.Stderr, "everhold: more than %d nodes; %s and others are not recorded\n", nodesMax, name)
		}
		return nil
	}
	probe, err := Start(Options{
		System: "instrumented", Node: uint32(len(current.nodes)), Name: name, Kind: kind, Recording: current.folder,
	})
	if err != nil {
		return nil
	}
	current.nodes[name] = probe
	return probe
}

// name returns the name of a node, or nothing if it is not known.
func (e *execution) name(kind *string, id interface{}) string {
	if *kind == "" {
		*kind = strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
		if name := os.Getenv("EVERHOLD_NODE"); name != "" {
			return clean(name)
		}
		return clean(fmt.Sprintf("%s-%d", *kind, os.Getpid()))
	}
	part, isPart := id.(reflect.Value)
	if !isPart {
		part = reflect.ValueOf(id)
		if part.Kind() == reflect.Ptr {
			address := part.Pointer()
			if e.addresses[address] == 0 {
				e.addresses[address] = len(e.addresses) + 1
			}
			return fmt.Sprintf("%s-%d", *kind, e.addresses[address])
		}
	}
	shown := look(part)
	switch shown.(type) {
	case nil, hidden:
		return ""
	}
	return clean(fmt.Sprintf("%s-%v", *kind, shown))
}

func clean(name string) string {
	return strings.Map(func(c rune) rune {
		if c == '-' || c == '_' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
			return c
		}
		return '_'
	}, name)
}
