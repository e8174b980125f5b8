package api

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/share"
)

// Problem is an error as it travels: RFC 9457, with the name of the command's exit code.
type Problem struct {
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty" doc:"one sentence"`
	Code   string   `json:"code" doc:"stable; the name of an exit code, or no_entry, denied, too_large, too_many"`
	Errors []string `json:"errors,omitempty" doc:"what is wrong with which field"`
	class  error
}

// Error is the sentence.
func (p *Problem) Error() string { return cmp.Or(p.Detail, p.Title) }

// GetStatus is the status of the answer.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of a problem.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// Unwrap is the error that the code stands for, on both sides.
func (p *Problem) Unwrap() error {
	if p.class != nil {
		return p.class
	}
	if i := slices.IndexFunc(classes, func(c class) bool { return c.code == p.Code }); i >= 0 {
		return classes[i].err
	}
	return nil
}

var (
	// ErrNoEntry says that the catalog has no such entry, or the entry no such file.
	ErrNoEntry = errors.New("there is no such entry")
	// ErrHave says that the catalog has what was to be added.
	ErrHave = errors.New("the node has that already")
	// ErrDenied says that the asker may not.
	ErrDenied = errors.New("not allowed")
	// ErrRequest says that what was asked makes no sense.
	ErrRequest = errors.New("the request cannot be read")
)

// class is a kind of error: its code, and the status that it travels with.
type class struct {
	err    error
	code   string
	status int
}

// classes has the names of the command's exit codes, and in their order.
var classes = []class{
	{ErrDenied, "denied", http.StatusForbidden},
	{ErrNoEntry, "no_entry", http.StatusNotFound},
	{ErrRequest, "usage", http.StatusUnprocessableEntity},
	{share.ErrTicket, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrNoSource, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrNotListed, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrAddress, "usage", http.StatusUnprocessableEntity},
	{fetcher.ErrNothingSelected, "usage", http.StatusUnprocessableEntity},
	{path.ErrBadPattern, "usage", http.StatusUnprocessableEntity},
	{share.ErrPath, "path", http.StatusUnprocessableEntity},
	{share.ErrExists, "exists", http.StatusConflict},
	{ErrHave, "held", http.StatusConflict},
	{share.ErrHeld, "held", http.StatusConflict},
	{share.ErrDiskFull, "disk_full", http.StatusInsufficientStorage},
	{share.ErrNetwork, "network", http.StatusBadGateway},
	{share.ErrNotFound, "not_found", http.StatusNotFound},
	{share.ErrNotAllowed, "not_allowed", http.StatusForbidden},
	{share.ErrLied, "lied", http.StatusBadGateway},
	{share.ErrStalled, "stalled", http.StatusGatewayTimeout},
	{fs.ErrNotExist, "missing", http.StatusNotFound},
	{fs.ErrPermission, "missing", http.StatusConflict},
}

// ProblemOf is an error as it travels.
func ProblemOf(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	p := &Problem{Status: http.StatusInternalServerError, Code: "other", Detail: err.Error(), class: err}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			p.Status, p.Code = c.status, c.code
			break
		}
	}
	p.Title = http.StatusText(p.Status)
	return p
}

// Refuse is a problem of a class, with a sentence of its own.
func Refuse(class error, sentence string, args ...any) *Problem {
	p := ProblemOf(class)
	p.Detail = fmt.Sprintf(sentence, args...)
	return p
}

// codes are those of problems that the server finds by itself, by status.
var codes = map[int]string{
	http.StatusUnauthorized: "denied", http.StatusForbidden: "denied", http.StatusMisdirectedRequest: "denied",
	http.StatusNotFound: "no_entry", http.StatusRequestEntityTooLarge: "too_large", http.StatusServiceUnavailable: "too_many",
	http.StatusInternalServerError: "other",
}

// newProblem makes the problems that the library finds.
func newProblem(status int, detail string, errs ...error) huma.StatusError {
	p := &Problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: cmp.Or(codes[status], "usage")}
	for _, err := range errs {
		if err == nil {
			continue
		}
		text := err.Error()
		if d := (*huma.ErrorDetail)(nil); errors.As(err, &d) && d.Location != "" {
			text = fmt.Sprintf("%s: %s", d.Location, d.Message)
		}
		p.Errors = append(p.Errors, text)
	}
	if len(p.Errors) > 0 {
		p.Detail += ": " + p.Errors[0]
	}
	return p
}

func init() { huma.NewError = newProblem }
