// Full runs the parts of the benchmark that make bench names, and keeps their figures in a result file.
package main
