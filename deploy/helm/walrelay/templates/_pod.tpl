{{/* What the pods that relay and the one of init have in common. */}}

{{- define "walrelay.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "walrelay.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "walrelay.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "walrelay.secretEnv" -}}
{{- range $name, $from := . }}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $from.name }}, key: {{ $from.key }}}}
{{- end }}
{{- end -}}

{{- define "walrelay.secretMounts" -}}
{{- range $key, $secret := . }}
- {name: secret-{{ $key }}, mountPath: /etc/walrelay/secrets/{{ $key }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "walrelay.secretVolumes" -}}
{{- range $key, $secret := . }}
- name: secret-{{ $key }}
  secret: {secretName: {{ $secret }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- define "walrelay.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
