package everhold

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

const (
	itemsMax = 16
	textMax  = 64
	depthMax = 8
)

// Plain returns a value as one of those that are recorded: numbers, texts, lists, maps and records.
// Structures become records of their exported fields.
func Plain(value interface{}) interface{} {
	switch value.(type) {
	case Map, Record:
		return plainParts(value)
	}
	return plain(reflect.ValueOf(value), 0, math.MaxInt32, true)
}

func plainParts(value interface{}) interface{} {
	switch value := value.(type) {
	case Map:
		made := Map{}
		for _, pair := range value {
			made = append(made, [2]interface{}{Plain(pair[0]), Plain(pair[1])})
		}
		return made
	case Record:
		made := Record{}
		for name, part := range value {
			made[name] = Plain(part)
		}
		return made
	}
	return nil
}

// hidden is a value that is not shown.
type hidden struct{}

// look returns a value of any type as far as it can be shown; unexported fields are read, nothing is
// called on them. Maps are shown by their length: another goroutine may write to one meanwhile, and Go
// ends a program in which a map is read then.
func look(v reflect.Value) interface{} { return plain(v, 0, itemsMax, false) }

func plain(v reflect.Value, depth, items int, whole bool) interface{} {
	if depth > depthMax {
		return hidden{}
	}
	if !v.IsValid() {
		return nil
	}
	if v.CanInterface() {
		switch special := v.Interface().(type) {
		case time.Duration:
			return special.Microseconds()
		case time.Time:
			return hidden{}
		case error:
			return short(special.Error(), items)
		case fmt.Stringer:
			// A named number with a name is better known by it; a pointer may change meanwhile.
			if k := v.Kind(); k >= reflect.Int && k <= reflect.Uint64 {
				return short(special.String(), items)
			}
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		if v.Uint() > math.MaxInt64 {
			return strconv.FormatUint(v.Uint(), 10)
		}
		return int64(v.Uint())
	case reflect.Float32, reflect.Float64:
		return v.Float()
	case reflect.String:
		return short(v.String(), items)
	case reflect.Ptr, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem(), depth+1, items, whole)
	case reflect.Slice, reflect.Array:
		return sequence(v, depth, items, whole)
	case reflect.Map:
		if !whole {
			return int64(v.Len())
		}
		return mapping(v, depth, items, whole)
	case reflect.Struct:
		return structure(v, depth, items, whole)
	case reflect.Chan:
		return int64(v.Len())
	}
	return hidden{}
}

func short(text string, items int) string {
	if items == itemsMax && len(text) > textMax {
		return text[:textMax]
	}
	return text
}

func sequence(v reflect.Value, depth, items int, whole bool) interface{} {
	made := []interface{}{}
	for at := 0; at < v.Len() && at < items; at++ {
		item := plain(v.Index(at), depth+1, items, whole)
		if _, is := item.(hidden); is {
			return int64(v.Len())
		}
		made = append(made, item)
	}
	return made
}

func mapping(v reflect.Value, depth, items int, whole bool) interface{} {
	// A part of a map would be another part each time.
	if v.Len() > items {
		return int64(v.Len())
	}
	made := Map{}
	for each := v.MapRange(); each.Next(); {
		key, value := plain(each.Key(), depth+1, items, whole), plain(each.Value(), depth+1, items, whole)
		_, noKey := key.(hidden)
		_, noValue := value.(hidden)
		if noKey || noValue {
			return int64(v.Len())
		}
		made = append(made, [2]interface{}{key, value})
	}
	return made
}

func structure(v reflect.Value, depth, items int, whole bool) interface{} {
	if !whole {
		return hidden{}
	}
	made := Record{}
	for at := 0; at < v.NumField(); at++ {
		if v.Type().Field(at).PkgPath == "" {
			if part := plain(v.Field(at), depth+1, items, whole); part != (interface{})(hidden{}) {
				made[v.Type().Field(at).Name] = part
			}
		}
	}
	return made
}
