package policy

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// Numbers and dates of conditions, as decimal texts: this package knows neither floating point nor
// a clock.

// numberMax is how many characters a number of a policy may have.
const numberMax = 40

var (
	numberPattern  = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
	secondsPattern = regexp.MustCompile(`^[0-9]{9,11}$`)
	datePattern    = regexp.MustCompile(`^([0-9]{4})-([0-9]{2})-([0-9]{2})` +
		`(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(?:Z|([+-])([0-9]{2}):([0-9]{2})))?$`)
)

// number reads a number as a decimal, or a date as the seconds since 1970. A date of digits must
// have 9 to 11 of them, which covers 1973 to 5138. A shorter one may be a year or 20300131, and a
// longer one milliseconds: read as seconds, each would be another moment.
func (k kind) number(text string) (decimal string, ok bool) {
	switch {
	case k == numbers:
		return text, len(text) <= numberMax && numberPattern.MatchString(text)
	case secondsPattern.MatchString(text):
		return text, true
	}
	return parseDate(text)
}

// parseDate returns the seconds from 1970 to a date, which may have a time with a zone.
func parseDate(text string) (decimal string, ok bool) {
	parts := datePattern.FindStringSubmatch(text)
	if parts == nil {
		return "", false
	}
	n := make([]int, len(parts)) // 0 where a part is missing
	for i, part := range parts {
		n[i], _ = strconv.Atoi(part)
	}
	year, month, day, hour, minute, second, offset := n[1], n[2], n[3], n[4], n[5], n[6], n[9]*60+
		n[10]
	if month < 1 || month > 12 || day < 1 || day > daysIn(year, month) || hour > 23 ||
		minute > 59 || second > 59 || n[9] > 23 || n[10] > 59 {
		return "", false
	}
	if parts[8] == "-" {
		offset = -offset
	}
	seconds := ((daysSince1970(year, month, day)*24+hour)*60+minute-offset)*60 + second
	if seconds < 0 {
		return "", false
	}
	decimal = strconv.Itoa(seconds)
	if parts[7] != "" {
		decimal += "." + parts[7]
	}
	return decimal, true
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func daysSince1970(year, month, day int) int {
	const until1970 = 1969*365 + 1969/4 - 1969/100 + 1969/400
	y := year - 1
	days := y*365 + y/4 - y/100 + y/400 - until1970 + day - 1
	for m := 1; m < month; m++ {
		days += daysIn(year, m)
	}
	return days
}

// compareDecimals compares two texts of numberPattern by value.
func compareDecimals(x, y string) int {
	xNegative, xWhole, xFraction := splitDecimal(x)
	yNegative, yWhole, yFraction := splitDecimal(y)
	switch {
	case xNegative && !yNegative:
		return -1
	case yNegative && !xNegative:
		return 1
	}
	c := cmp.Or(cmp.Compare(len(xWhole), len(yWhole)), strings.Compare(xWhole, yWhole),
		strings.Compare(xFraction, yFraction))
	if xNegative {
		return -c
	}
	return c
}

// splitDecimal returns the parts of a decimal without zeros that do not count. Zero is not
// negative.
func splitDecimal(text string) (negative bool, whole, fraction string) {
	digits, negative := strings.CutPrefix(text, "-")
	whole, fraction, _ = strings.Cut(digits, ".")
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	return negative && whole+fraction != "", whole, fraction
}
