// The front end of `everhold instrument` for Go: it reads the packages of a module with go/ast and
// go/types, and prints the facts about them as JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// File is a file that was read.
type File struct {
	Path  string `json:"path"`
	Lines int    `json:"lines"`
}

// Skipped is a file or folder that was left out.
type Skipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Function is a function with a body.
type Function struct {
	Name  string  `json:"name"`
	Owner *string `json:"owner,omitempty"`
}

// Var is a variable.
type Var struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	Owner    string `json:"owner"`
	File     int    `json:"file"`
	Line     int    `json:"line"`
	IsHandle bool   `json:"is_handle"`
}

// Flow is a flow of a value from one variable to another.
type Flow struct {
	From int    `json:"from"`
	To   int    `json:"to"`
	How  string `json:"how"`
	File int    `json:"file"`
	Line int    `json:"line"`
}

// Meet is a call through which a variable meets the network.
type Meet struct {
	Var       int    `json:"var"`
	Direction string `json:"direction"`
	Call      string `json:"call"`
	File      int    `json:"file"`
	Line      int    `json:"line"`
}

// Receiver is the receiver of a method.
type Receiver struct {
	Of         string `json:"of"`
	Expression string `json:"expression"`
}

// Visible is a variable with the expression that reads it; it is written as a pair.
type Visible struct {
	Var        int
	Expression string
}

// MarshalJSON writes a pair.
func (v Visible) MarshalJSON() ([]byte, error) {
	return json.Marshal([]interface{}{v.Var, v.Expression})
}

// Point is a place where variables can be recorded.
type Point struct {
	Kind     string    `json:"kind"`
	File     int       `json:"file"`
	Offset   int       `json:"offset"`
	Line     int       `json:"line"`
	Function int       `json:"function"`
	Visible  []Visible `json:"visible"`
	Receiver *Receiver `json:"receiver,omitempty"`
}

// Begin is a place where a run begins.
type Begin struct {
	File   int    `json:"file"`
	Offset int    `json:"offset"`
	Name   string `json:"name"`
}

// Facts are the facts about a module.
type Facts struct {
	Files     []File     `json:"files"`
	Skipped   []Skipped  `json:"skipped"`
	Functions []Function `json:"functions"`
	Vars      []Var      `json:"vars"`
	Flows     []Flow     `json:"flows"`
	Meets     []Meet     `json:"meets"`
	Points    []Point    `json:"points"`
	Begins    []Begin    `json:"begins"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: facts FOLDER < ENTRIES")
		os.Exit(64)
	}
	entries := map[string]string{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) == 2 {
			entries[words[1]] = map[string]string{"receive": "in", "send": "out"}[words[0]]
		}
	}
	reader := newReader(os.Args[1], entries)
	if err := reader.read(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(reader.facts); err != nil {
		os.Exit(1)
	}
}
