;;; emacs.el --- a real Emacs with a block of docs/editors.md: types, and says what it sees.
;; emacs -nw -l tests/lsp/emacs.el, the block in ~/.emacs.d/init.el
;; CERIUM_FILE, CERIUM_OUT: what it edits, and where it says; CERIUM_CLIENT: eglot or lsp-mode
(setq inhibit-startup-screen t)
(require 'cl-lib)
(defvar test-client (intern (getenv "CERIUM_CLIENT")))
(require test-client)
(when (eq test-client 'lsp-mode) (require 'lsp-inline-completion nil t)) ; of 10 and later

(defun say (&rest words)
  (let ((inhibit-message t))
    (write-region (concat (mapconcat (lambda (w) (format "%s" w)) words "\t") "\n") nil
                  (getenv "CERIUM_OUT") 'append 'silent)))

(defun lines () (buffer-substring-no-properties (point-min) (point-max)))

;; What a user picks of a menu, and says to a question: TITLE is in the menu's line.
(defun choose (title act)
  (cl-letf (((symbol-function 'completing-read)
             (lambda (_prompt menu &rest _)
               (or (cl-find-if (lambda (one) (string-match-p title one))
                               (all-completions "" menu))
                   (error "no %s in %S" title (all-completions "" menu))))))
    (funcall act)))
(fset 'y-or-n-p (lambda (&rest _) t))
(fset 'yes-or-no-p (lambda (&rest _) t))

(defun start ()
  (if (eq test-client 'eglot) (call-interactively 'eglot)
    ;; What its first question asks for.
    (lsp-workspace-folders-add (file-name-directory (getenv "CERIUM_FILE")))
    (lsp)))

(defun ready ()
  (if (eq test-client 'eglot) (eglot-current-server)
    (and (bound-and-true-p lsp-mode) (lsp-workspaces)
         (eq 'initialized (lsp--workspace-status (car (lsp-workspaces)))))))

(defun weak ()
  (if (eq test-client 'eglot)
      (mapcar (lambda (d) (list (line-number-at-pos (flymake-diagnostic-beg d))
                                (flymake-diagnostic-text d)))
              (flymake-diagnostics))
    (mapcar (lambda (d) (list (1+ (gethash "line" (gethash "start" (gethash "range" d))))
                              (gethash "message" d)))
            (lsp--get-buffer-diagnostics))))

(defun act ()
  (if (eq test-client 'eglot) (call-interactively 'eglot-code-actions)
    (call-interactively 'lsp-execute-code-action)))

(defvar steps nil)
(defvar waited 0)
(defvar before nil)
(defmacro step (ready &rest body)
  `(setq steps (append steps (list (cons (lambda () ,ready) (lambda () ,@body))))))

(step t (find-file (getenv "CERIUM_FILE")) (start))
(step (ready)
      (say 'started)
      (goto-char (point-max))
      ;; lsp-mode before 10 counts code points and calls them UTF-16.
      (insert (format "\ndef f(x):\n    é = '%s'; h = hashlib.md5(x)\n    return h\n"
                      (if (or (eq test-client 'eglot) (fboundp 'lsp-inline-completion-accept)) "😀" "é"))))
(step (weak)
      (let ((found (car (weak))))
        (goto-char (point-max))
        (forward-line -2)
        (say 'weak (= (nth 0 found) (line-number-at-pos)) (nth 1 found))
        (setq before (lines))
        (search-forward "md5")
        (choose "sha256" #'act)))
(step (not (equal before (lines)))
      (say 'fixed (equal (lines) (string-replace "md5" "sha256" before)))
      (goto-char (point-min))
      (insert "# cerium: add\n")
      (goto-char (point-min))
      (setq before (lines)))
(step (null (weak)) (choose "Do what the comment says" #'act))
(step (not (equal before (lines)))
      (say 'edited (string-prefix-p "import sys\nimport hashlib\n" (lines)))
      (goto-char (point-max))
      (insert "\nclass Point:\n    def __add__(self, other):\n        return Point(self.x + other.x)\n"
              "\n    def __sub__(self, oth")
      (setq before (lines)))
(defun ghost ()
  (and (bound-and-true-p lsp-inline-completion--overlay)
       (overlay-buffer lsp-inline-completion--overlay)))
;; Of the versions that have it; accepted by its key.
(when (fboundp 'lsp-inline-completion-accept)
  (setq steps (append steps (list (cons #'ghost 'C-return)))))
(step (or (not (fboundp 'lsp-inline-completion-accept)) (not (equal before (lines))))
      (say 'inline (if (fboundp 'lsp-inline-completion-accept)
                       (string-prefix-p before (lines))
                     'none))
      (say 'end)
      (set-buffer-modified-p nil)
      (kill-emacs 0))

;; Each step is a command of a key, as what a user does: editors wait for the next one.
(defvar next nil)
(defun fail (problem)
  (say 'failed (length steps) problem (lines))
  (kill-emacs 1))
(global-set-key [f9] (lambda () (interactive)
                       (condition-case problem (funcall next) (error (fail problem)))))
(defun look ()
  (setq waited (1+ waited))
  (condition-case problem
      (with-current-buffer (window-buffer)
        (cond ((> waited 1200) (fail "stuck"))
              ((and steps (null unread-command-events) (funcall (caar steps)))
               (setq next (cdr (pop steps)) waited 0
                     unread-command-events (list (if (functionp next) 'f9 next))))))
    (error (fail problem))))
(run-with-timer 0.1 0.05 #'look)
