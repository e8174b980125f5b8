package spoken

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxChannel is the greatest number of a channel.
const MaxChannel = 9_999

// ErrCode is wrapped by the errors of Parse.
var ErrCode = errors.New("this is not a code")

//go:embed words.txt
var wordList string

// words are in alphabetical order. No two differ by one letter less, more, or different,
// nor by two that are swapped, and none begins with another: see the test.
var words = strings.Fields(wordList)

// perWord is the number of bits of a word.
const perWord = 11

// Code is what one person says to another.
type Code struct {
	Channel int // 1 to MaxChannel
	words   [2]string
}

// New returns the code of a channel; of chance, which must be random, it uses 22 bits.
func New(channel int, chance uint32) Code {
	const mask = 1<<perWord - 1
	return Code{channel, [2]string{words[chance&mask], words[chance>>perWord&mask]}}
}

// String returns the code as it is shown, such as 7-marble-fossil.
func (c Code) String() string { return fmt.Sprintf("%d-%s", c.Channel, c.secret()) }

// secret is what of the code the beacon does not know.
func (c Code) secret() string { return c.words[0] + "-" + c.words[1] }

// Parse reads a code in any case, with spaces, hyphens or both between its parts. Of a word that
// is not in the list, the error names the one that is closest.
func Parse(text string) (Code, error) {
	parts := split(text)
	if len(parts) != 3 {
		return Code{}, fmt.Errorf("%w: a code has three parts, a number and two words, such as 7-marble-fossil, and this has %d", ErrCode, len(parts))
	}
	n, err := strconv.Atoi(parts[0])
	if err != nil || n < 1 || n > MaxChannel {
		return Code{}, fmt.Errorf("%w: a code begins with a number from 1 to %d, and this one with %q", ErrCode, MaxChannel, cut(parts[0]))
	}
	c := Code{Channel: n}
	for i, w := range parts[1:] {
		if _, ok := slices.BinarySearch(words, w); !ok {
			return Code{}, fmt.Errorf("%w: %q is not one of the words that codes use%s", ErrCode, cut(w), hint(w))
		}
		c.words[i] = w
	}
	return c, nil
}

func split(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == '-' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// cut shortens a word of a user for a message.
func cut(w string) string {
	if r := []rune(w); len(r) > 20 {
		return string(r[:20]) + "..."
	}
	return w
}

// Complete returns the codes that text may become with one more word, or with the rest of the
// one that it ends in.
func Complete(text string) (out []string) {
	parts := split(text)
	if strings.HasSuffix(text, "-") {
		parts = append(parts, "")
	}
	if len(parts) < 2 || len(parts) > 3 {
		return nil
	}
	if _, err := strconv.Atoi(parts[0]); err != nil {
		return nil
	}
	before, last := strings.Join(parts[:len(parts)-1], "-"), parts[len(parts)-1]
	i, _ := slices.BinarySearch(words, last)
	for ; i < len(words) && strings.HasPrefix(words[i], last); i++ {
		out = append(out, before+"-"+words[i])
	}
	return out
}

// hint names the word that is closest to w, if one is close.
func hint(w string) string {
	if len(w) > 16 {
		return ""
	}
	best, at := 4, ""
	for _, x := range words {
		if d := distance(w, x); d < best {
			best, at = d, x
		}
	}
	if at == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", at)
}

// distance is the number of letters to insert, remove, replace or swap with the next.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		last := before
		before, row = row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], last[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
