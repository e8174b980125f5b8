package share

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/multiformats/go-multiaddr"
)

// written returns two tickets, and the ID of the first.
func written(t testing.TB) (one, two string, id ID) {
	for i, at := range []string{"/ip4/192.0.2.1/tcp/4001/p2p/", "/ip4/192.0.2.2/tcp/4002/p2p/"} {
		a, err := multiaddr.NewMultiaddr(at + examplePeer)
		if err != nil {
			t.Fatal(err)
		}
		id = IDOf([]byte{byte(i)})
		ticket, err := NewTicket(id, []multiaddr.Multiaddr{a})
		if err != nil {
			t.Fatal(err)
		}
		one, two = two, ticket.String()
	}
	return one, two, IDOf([]byte{0})
}

func TestATicketIsFoundInWhatIsPasted(t *testing.T) {
	one, two, id := written(t)
	folded := one[:30] + "\r\n> " + one[30:60] + "\n>> " + one[60:]
	for name, text := range map[string]string{
		"alone":            "  " + one + "\n",
		"capitals":         strings.ToUpper(one),
		"quoted":           "> " + one,
		"quoted, folded":   "> " + folded + "\n> Regards\n",
		"indented":         "    | " + one[:50] + "\n    | " + one[50:] + "\n",
		"quoted-printable": one[:70] + "=\r\n" + one[70:] + "\r\n--=20\r\nme",
		"brackets":         "<" + one + ">",
		"guillemets":       "‹" + one + "›",
		"double quotes":    "“" + one + "”.",
		"code":             "```\nfetcher fetch " + one + " -o photos\n```",
		"a mail":           "Dear Ann,\nI share the photos now; share2 is no ticket. Here:\n\n" + one + "\n\nShared with love, B.\nshare",
		"soft hyphens":     one[:20] + "\u00ad" + one[20:40] + "\u200b" + one[40:],
		"twice":            one + "\nfetch it with\n\n    fetcher fetch " + one,
		"with its ID":      "share    " + id.String() + "\n" + one,
	} {
		if got, err := Find(text); err != nil || got != one && got != strings.ToUpper(one) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, text := range map[string]string{"an ID": id.String(), "an ID in a text": "it is (" + id.String() + "), see there", "an ID twice": id.String() + "\n" + strings.ToUpper(id.String()), "an ID in two": id.String()[:20] + "\n" + id.String()[20:]} {
		if got, err := Find(text); err != nil || got != id.String() {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, c := range map[string]struct {
		text, says string
		cut        bool
	}{
		"two":               {one + "\nand\n" + two, "2 different tickets or share IDs", false},
		"two IDs":           {id.String() + ", " + IDOf(nil).String(), "2 different tickets or share IDs", false},
		"cut":               {"Here it is: " + one[:80] + ".\nBye", "cut short", true},
		"cut, alone":        {one[:80] + "\n", "cut short", true},
		"mistyped":          {"Here it is: " + strings.Replace(one, one[50:52], "22", 1), "mistyped", false},
		"mistyped, alone":   {one[:50] + "!" + one[50:], "'!', at position 51", false},
		"none":              {"I share the photos.", "neither a ticket", false},
		"nothing":           {"", "it is empty", false},
		"too much":          {strings.Repeat("a ", MaxText), "too many", false},
		"an ID and a wreck": {id.String() + " " + one[:80] + ".", "cut short", true},
	} {
		if got, err := Find(c.text); !errors.Is(err, ErrTicket) || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrCut) != c.cut {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A text that begins a ticket again and again is read in a bounded time.
func TestALongTextIsSearchedInABoundedTime(t *testing.T) {
	one, _, _ := written(t)
	text := strings.Repeat("shareujq ", MaxText/9)
	began := time.Now()
	if got, err := Find(text); err == nil {
		t.Errorf("%q is found", got)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	if got, err := Find(strings.Repeat("a share2 ", 500) + one); err != nil || got != one {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzFind(f *testing.F) {
	one, two, id := written(f)
	for _, s := range []string{one, two + " " + one, "> " + one[:30] + "\n> " + one[30:], id.String(), "share the photos", "‹", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Find(text)
		if _, wrong := Parse(got); err == nil && wrong != nil {
			t.Errorf("%q has %q, which is none: %v", text, got, wrong)
		}
		if err != nil && (got != "" || !errors.Is(err, ErrTicket)) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	})
}
