package wire

import "testing"

func TestRepliesInWords(t *testing.T) {
	for want, r := range map[string]Reply{
		"serves it":               {},
		"does not have it":        {Status: NotFound},
		"no longer has the share": {Status: Gone},
		`no longer has the share: "a file has changed"`: {Status: Gone, Reason: Reason{Prose: "a file has changed"}},
		"is busy": {Status: Busy},
		"does not allow this node to have the share": {Status: Refused, Reason: Why(CodeNotAllowed)},
		`refuses: "because\u202e"`:                   {Status: Refused, Reason: Reason{200, "because\u202e"}},
		"refuses":                                    {Status: 200},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
