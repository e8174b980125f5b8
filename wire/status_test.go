package wire

import "testing"

func TestRepliesInWords(t *testing.T) {
	for want, r := range map[string]Reply{
		"serves it":               {},
		"does not have it":        {Status: NotFound},
		"no longer has the share": {Status: Gone},
		"no longer has the share: a file has changed": {Status: Gone, Reason: "a file has changed"},
		"is busy":              {Status: Busy},
		"refuses: not allowed": {Status: Refused, Reason: "not allowed"},
		"refuses":              {Status: 200},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
