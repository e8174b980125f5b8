package api

import (
	"errors"
	"reflect"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// CheckText refuses a request that has text which is not UTF-8, such as a path: in JSON it would become other text, and the path
// that of another file.
func CheckText(request any) error {
	if s, bad := notUTF8(reflect.ValueOf(request)); bad {
		return Refuse(ErrRequest, "%q is not UTF-8, and the node cannot be told of it: give it another name first", s)
	}
	return nil
}

// notUTF8 finds text in a value that JSON cannot hold as it is.
func notUTF8(v reflect.Value) (text string, found bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return notUTF8(v.Elem()) // of nil it is the zero Value
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && !found; i++ {
			text, found = notUTF8(v.Index(i))
		}
	case reflect.Map:
		for at := v.MapRange(); !found && at.Next(); {
			if text, found = notUTF8(at.Key()); !found {
				text, found = notUTF8(at.Value())
			}
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && !found; i++ {
			if v.Type().Field(i).IsExported() {
				text, found = notUTF8(v.Field(i))
			}
		}
	}
	return text, found
}

// format is JSON that is UTF-8, as it must be.
var format = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(b []byte, v any) error {
		if !utf8.Valid(b) {
			return errors.New("the body is not UTF-8")
		}
		return huma.DefaultJSONFormat.Unmarshal(b, v)
	},
}
