package spoken

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheWordsAreFarApart(t *testing.T) {
	if len(words) != 1<<perWord || !slices.IsSorted(words) {
		t.Fatalf("%d words, in order: %v", len(words), slices.IsSorted(words))
	}
	easy := regexp.MustCompile(`^[a-z]{3,10}$`)
	forms := map[string]string{} // of a word, or of one without a letter
	for i, w := range words {
		if !easy.MatchString(w) {
			t.Errorf("%q is no easy word", w)
		}
		if i > 0 && strings.HasPrefix(w, words[i-1]) {
			t.Errorf("%q begins with %q", w, words[i-1])
		}
		without := []string{w}
		for j := range w {
			without = append(without, w[:j]+w[j+1:])
		}
		slices.Sort(without)
		for _, f := range slices.Compact(without) {
			if other, ok := forms[f]; ok && distance(w, other) < 2 {
				t.Errorf("%q and %q are told apart by one letter", w, other)
			}
			forms[f] = w
		}
	}
}

func TestACodeIsReadAsItIsTyped(t *testing.T) {
	c := New(7, 0x2a5_41)
	want := c.String()
	for _, text := range []string{want, strings.ToUpper(want), strings.ReplaceAll(want, "-", " "), "  " + strings.ReplaceAll(want, "-", " - ") + "\n", "0" + want} {
		if got, err := Parse(text); err != nil || got != c {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if New(7, 0) == New(7, 1) || New(7, 0) == New(7, 1<<perWord) || New(7, 0) != New(7, 1<<(2*perWord)) {
		t.Error("a code has other than 22 bits")
	}
	for text, says := range map[string]string{
		"":                                      "this has 0",
		"7-" + words[3]:                         "this has 2",
		"0-" + words[3] + "-" + words[4]:        "a number from 1",
		"10000-" + words[3] + "-" + words[4]:    "a number from 1",
		"7-marbel-fossil":                       `did you mean "marble"?`,
		"7-marble-fosil":                        `did you mean "fossil"?`,
		"7-marble-qqqqqqqqqqqqqq":               `"qqqqqqqqqqqqqq" is not one of the words that codes use`,
		"7-marble-" + strings.Repeat("long", 9): `"longlonglonglonglong..."`,
	} {
		if _, err := Parse(text); !errors.Is(err, ErrCode) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestACodeIsCompleted(t *testing.T) {
	if got := Complete("7-marb"); !slices.Equal(got, []string{"7-marble"}) {
		t.Errorf("%q", got)
	}
	if got := Complete("7-marble-FOSS"); !slices.Equal(got, []string{"7-marble-fossil"}) {
		t.Errorf("%q", got)
	}
	if got := Complete("7-"); len(got) != len(words) {
		t.Errorf("%d codes", len(got))
	}
	for _, text := range []string{"", "7", "share", "7-marble-fossil-", "7-qq", "x-marb"} {
		if got := Complete(text); len(got) > 0 {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"7-marble-fossil", "7 marbel fossil", "9999", "-", "7-é-\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err == nil {
			if again, err := Parse(c.String()); err != nil || again != c {
				t.Errorf("%q is %q, which is %v, %v", text, c, again, err)
			}
		}
		Complete(text)
	})
}
