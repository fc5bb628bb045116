package config

import "strings"

// didYouMean is "; did you mean X?" with the candidate that the word was probably meant to be, or nothing.
func didYouMean(word string, candidates []string) string {
	if best := nearest(word, candidates); best != "" {
		return "; did you mean " + best + "?"
	}
	return ""
}

// nearest prefers few typing errors, then a candidate that ends or begins with the word: brokers is kafka.brokers.
func nearest(word string, candidates []string) string {
	word = normal(word)
	best, fewest := "", 1+len(word)/5
	for _, candidate := range candidates {
		if d := distance(word, normal(candidate)); d <= fewest && (best == "" || d < fewest) {
			best, fewest = candidate, d
		}
	}
	for _, related := range []func(a, b string) bool{
		func(a, b string) bool { return strings.HasSuffix(b, "_"+a) || strings.HasSuffix(a, "_"+b) },
		strings.HasPrefix,
		func(a, b string) bool { return strings.HasPrefix(b, a) },
	} {
		for _, candidate := range candidates {
			if best == "" && related(word, normal(candidate)) {
				best = candidate
			}
		}
	}
	return best
}

// normal makes keys and variables comparable.
func normal(word string) string {
	word = strings.TrimPrefix(word, variablePrefix)
	return strings.ToLower(strings.NewReplacer(".", "_", "-", "_").Replace(word))
}

// distance is the number of letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
