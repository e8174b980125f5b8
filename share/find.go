package share

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MaxText is the maximum number of bytes of a text in which Find looks.
const MaxText = 64 << 10

// Find returns the one ticket in a text, such as a mail: as it is written there, or in capitals, in brackets
// or quotes, wrapped over lines, or quoted by a mail program, with a mark before each line. Where there is no
// ticket, it is the one share ID. The error wraps ErrTicket, and ErrCut if more text could make it a ticket.
func Find(text string) (string, error) {
	if len(text) > MaxText {
		return "", fmt.Errorf("%w: the text has over %d bytes, too many to search for a ticket", ErrTicket, MaxText)
	}
	whole := asWritten(text)
	_, err := Parse(whole)
	if err == nil {
		return whole, nil
	}
	parts := partsOf(text)
	var found []string
	var likely error // of what is meant as a ticket
	tries := maxTries
	for i, p := range parts {
		if len(p.text) < minStart || !strings.HasPrefix(inLowerCase(p.text), ticketPrefix) {
			continue
		}
		t, wrong := joined(parts[i:], &tries)
		if wrong == nil {
			found = append(found, t)
		} else if likely == nil && len(p.text) > minLikely {
			likely = wrong
		}
	}
	if len(found) == 0 && likely == nil {
		for _, p := range parts {
			if id, err := ParseID(p.text); err == nil { // one ID has several spellings
				found = append(found, id.String())
			}
		}
	}
	slices.Sort(found)
	switch found = slices.Compact(found); {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("%w: the text has %d different tickets or share IDs; give one of them", ErrTicket, len(found))
	case likely != nil && !strings.HasPrefix(inLowerCase(whole), ticketPrefix): // else err says more
		return "", likely
	}
	return "", err
}

// A part that begins a ticket has at least minStart letters, and one of more than minLikely is no word of a language.
// Of one text, maxTries beginnings of tickets are read.
const (
	minStart  = len(ticketPrefix) + 3
	minLikely = 40
	maxTries  = 1_000
)

// part is a run of letters and digits of a text; bound says that the next one may continue it.
type part struct {
	text  string
	bound bool
}

// partsOf splits a text at whatever is neither a letter nor a digit. What mail programs and terminals put between the
// parts of one word binds them.
func partsOf(text string) (out []part) {
	begin := -1
	end := func(i int) {
		if begin >= 0 {
			out = append(out, part{text[begin:i], true})
			begin = -1
		}
	}
	for i, c := range text {
		switch {
		case unicode.IsLetter(c), unicode.IsDigit(c):
			if begin < 0 {
				begin = i
			}
		case unicode.IsSpace(c), strings.ContainsRune(">|=\u00ad\u200b\ufeff", c):
			end(i)
		default:
			if end(i); len(out) > 0 {
				out[len(out)-1].bound = false
			}
		}
	}
	end(len(text))
	return out
}

// joined returns the ticket that the first of some parts begins. If there is none, the error is that of this part.
func joined(parts []part, tries *int) (string, error) {
	text := ""
	wrong := ErrTicket
	for i, p := range parts {
		if *tries--; *tries < 0 || len(text) > MaxTicket {
			break
		}
		text += inLowerCase(p.text)
		_, err := ParseTicket(text)
		if err == nil {
			return text, nil
		}
		if i == 0 {
			wrong = err
		}
		if !p.bound || !errors.Is(err, ErrCut) {
			break
		}
	}
	return "", wrong
}
