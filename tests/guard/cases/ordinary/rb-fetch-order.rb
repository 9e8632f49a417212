SORTS = { "name" => "name ASC", "new" => "created_at DESC" }.freeze
def index
  @posts = Post.where("name LIKE ?", "%#{params[:q]}%").order(SORTS.fetch(params[:sort], "name ASC"))
end
