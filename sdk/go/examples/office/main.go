// An office that sells seats: it shows which, to a watch or in a recording.
//
//	go run ./examples/office NUMBER CHECKER [SECRET]
//	sell 7 ada
//	cancel 7 ada
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	everhold "github.com/everhold/everhold/sdk/go"
)

func main() {
	number, err := strconv.ParseUint(os.Args[1], 10, 32)
	if err != nil {
		panic(err)
	}
	var mutex sync.Mutex
	sold := map[int]string{}
	options := everhold.Options{
		System: "booking", Node: uint32(number), Name: "office-" + os.Args[1], Kind: "office",
		Checkers: []string{os.Args[2]},
		Refresh: func(p *everhold.Probe) {
			mutex.Lock()
			defer mutex.Unlock()
			for seat, name := range sold {
				p.Add("sold", seat, name)
			}
		},
	}
	if len(os.Args) > 3 {
		options.Secret = os.Args[3]
	}
	probe, err := everhold.Start(options)
	if err != nil {
		panic(err)
	}
	defer probe.Close()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		seat, _ := strconv.Atoi(words[1])
		mutex.Lock()
		if words[0] == "sell" {
			sold[seat] = words[2]
			probe.Add("sold", seat, words[2])
		} else {
			delete(sold, seat)
			probe.Remove("sold", seat, words[2])
		}
		mutex.Unlock()
		fmt.Println("done")
	}
}
