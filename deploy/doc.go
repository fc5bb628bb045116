// Package deploy holds what docker-compose.yml mounts, and tests that keep that file, the Dockerfile and .dockerignore in
// step with the code. Nothing is deployed by this package, and nobody imports it.
package deploy
