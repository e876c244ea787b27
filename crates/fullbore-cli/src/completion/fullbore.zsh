#compdef fullbore
# Completes the command line of fullbore in zsh.

_fullbore() {
    local line
    local -a answer described
    answer=("${(@f)$("${(Q)words[1]/#\~/$HOME}" complete -- "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2> /dev/null)}")
    [[ $PREFIX == --*=* ]] && case $answer[1] in
        files | directories) compset -P '*=' ;;
    esac
    case $answer[1] in
        files) _files ;;
        directories) _files -/ ;;
        commands) _command_names -e ;;
        ?*)
            for line in $answer; do
                described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
            done
            _describe -V -t values value described
            ;;
    esac
}

# zsh runs this file the first time that it completes fullbore; with source, it only defines the function.
if [[ $funcstack[1] == _fullbore ]]; then
    _fullbore "$@"
else
    compdef _fullbore fullbore
fi
