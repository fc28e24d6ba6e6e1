package main

import (
	"go/ast"
	"go/types"
	"strings"
)

// handles are the types through which programs reach the network, by package.
var handles = map[string][]string{
	"net":                          {"Conn", "TCPConn", "UDPConn", "UnixConn", "IPConn", "PacketConn", "Listener", "TCPListener", "UnixListener", "Dialer"},
	"net/http":                     {"Client", "Transport", "RoundTripper", "ResponseWriter", "Server"},
	"net/rpc":                      {"Client", "Server"},
	"net/rpc/jsonrpc":              {"Client"},
	"crypto/tls":                   {"Conn"},
	"net/textproto":                {"Conn", "Reader", "Writer"},
	"google.golang.org/grpc":       {"ClientConn", "ClientStream", "ServerStream", "ClientConnInterface"},
	"github.com/gorilla/websocket": {"Conn"},
	"nhooyr.io/websocket":          {"Conn"},
	"golang.org/x/net/websocket":   {"Conn"},
	"github.com/quic-go/quic-go":   {"Connection", "Stream"},
	"github.com/nats-io/nats.go":   {"Conn"},
}

// reads are the methods of connections, and the functions given one, that receive.
var reads = set("Accept Read ReadAtLeast ReadAll ReadByte ReadBytes ReadRune ReadSlice ReadString ReadLine " +
	"ReadFull ReadFrom ReadFromUDP ReadMsgUDP ReadFromUDPAddrPort ReadMessage ReadJSON Peek Scan Text Bytes Decode DecodeElement Recv " +
	"RecvMsg Call Do RoundTrip Get Head Post PostForm Invoke Fscan Fscanf Fscanln Unmarshal Token Receive Copy CopyN")

// writes are the methods of connections, and the functions given one, that send.
var writes = set("Write WriteByte WriteRune WriteString WriteTo WriteToUDP WriteMsgUDP WriteToUDPAddrPort WriteMessage WriteJSON " +
	"Encode EncodeElement Send SendMsg Call Go Do RoundTrip Get Post PostForm Invoke Fprint Fprintf Fprintln Publish Request WriteHeader " +
	"Error Redirect Copy CopyN")

// puts are the methods that put their arguments into their receivers.
var puts = set("Write WriteByte WriteRune WriteString Store Set Add Put Push PushBack PushFront Insert Append Swap Update " +
	"CompareAndSwap LoadOrStore SetString SetBytes Fprintf Fprintln")

// selects are the functions whose arguments do not become a part of the result.
var selects = set("Lock Unlock RLock RUnlock Get Load Delete Contains HasPrefix HasSuffix Index Wait Done After Sleep " +
	"SetDeadline SetReadDeadline SetWriteDeadline Close")

func set(words string) map[string]bool {
	found := map[string]bool{}
	for _, word := range strings.Fields(words) {
		found[word] = true
	}
	return found
}

// isHandle returns whether a type is a way to the network.
func isHandle(t types.Type) bool {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return false
	}
	path := named.Obj().Pkg().Path()
	if at := strings.LastIndex(path, "/vendor/"); at >= 0 {
		path = path[at+len("/vendor/"):]
	}
	for _, name := range handles[path] {
		if name == named.Obj().Name() {
			return true
		}
	}
	return false
}

// mayCarry returns whether a value of a type may be a connection that is wrapped.
func mayCarry(t types.Type) bool {
	switch t := t.(type) {
	case *types.Pointer:
		_, named := t.Elem().(*types.Named)
		return named && !isMessage(t)
	case *types.Named:
		name := t.Obj().Name()
		_, is := t.Underlying().(*types.Interface)
		return is && name != "error" && name != "Addr" && name != "Context"
	}
	return false
}

// isMessage returns whether a type has the methods that protocol compilers generate.
func isMessage(t types.Type) bool {
	methods := types.NewMethodSet(t)
	for i := 0; i < methods.Len(); i++ {
		if name := methods.At(i).Obj().Name(); name == "ProtoMessage" || name == "ProtoReflect" {
			return true
		}
	}
	return false
}

func isRequest(t types.Type) bool {
	return t.String() == "*net/http.Request" || t.String() == "*net/http.Response"
}

// entry records the meetings of a function that a framework calls, or that a person named.
func (r *reader) entry(c *callable, s *types.Signature, d *ast.FuncDecl, file, line int) {
	meet := func(at int, direction string) {
		r.facts.Meets = append(r.facts.Meets, Meet{at, direction, c.name, file, line})
	}
	if direction, named := r.entries[c.name]; named {
		for _, param := range c.params {
			meet(param, direction)
		}
		for _, result := range c.results {
			if direction == "in" {
				meet(result, "out")
			}
		}
		return
	}
	n := s.Params().Len()
	for i := 0; i < n; i++ {
		if isRequest(s.Params().At(i).Type()) {
			meet(c.params[i], "in")
		}
	}
	if d.Recv == nil || !ast.IsExported(d.Name.Name) {
		return
	}
	returnsError := s.Results().Len() == 1 && s.Results().At(0).Type().String() == "error"
	if n == 2 && returnsError && isRPC(s, d) {
		meet(c.params[0], "in")
		meet(c.params[1], "out")
	}
	if n >= 2 && r.usesGRPC(d) && strings.HasSuffix(s.Params().At(0).Type().String(), "context.Context") && isMessage(s.Params().At(1).Type()) {
		meet(c.params[1], "in")
		for i, result := range c.results {
			if i == 0 && !isError(s.Results().At(i).Type()) {
				meet(result, "out")
			}
		}
	}
}

// usesGRPC returns whether the file of a function imports gRPC.
func (r *reader) usesGRPC(d *ast.FuncDecl) bool {
	return r.grpc[r.fset.Position(d.Pos()).Filename]
}

// isRPC returns whether a method has the form that net/rpc calls, with a reply by pointer.
func isRPC(s *types.Signature, d *ast.FuncDecl) bool {
	reply, ok := s.Params().At(1).Type().(*types.Pointer)
	if !ok {
		return false
	}
	if named, ok := reply.Elem().(*types.Named); ok && !named.Obj().Exported() {
		return false
	}
	_, isInterface := s.Params().At(0).Type().Underlying().(*types.Interface)
	name := strings.ToLower(d.Type.Params.List[len(d.Type.Params.List)-1].Names[0].Name)
	return !isInterface && (strings.Contains(name, "reply") || strings.Contains(name, "resp") || strings.Contains(name, "result") || strings.Contains(name, "ret") || strings.Contains(name, "ack"))
}
